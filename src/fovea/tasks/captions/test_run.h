#pragma once
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/data/png.h"
#include "fovea/tasks/captions/task.h"
#include "fovea/tasks/test_layers.h"
#include "fovea/text/vocab.h"
#include "fovea/train/test_training.h"

namespace fovea::captions {

// Images of 4 x 4 pixels: the upper half in one of three colours, the lower half in another.
inline constexpr std::array<const char*, 3> kColours = {"red", "green", "blue"};

inline data::Image two_colours(size_t upper, size_t lower) {
  data::Image image = {{4, 4, 3}, std::vector<uint8_t>(48, 20)};
  for (size_t i = 0; i < 16; ++i) image.values[3 * i + (i < 8 ? upper : lower)] = 230;
  return image;
}

// A training of a tiny model on the six images of two colours, with two captions each.
struct TestRun {
  TestFolder folder;
  TrainConfig train;
  Options data;
  CaptionConfig model;

  TestRun() {
    std::string captions, text;
    std::filesystem::create_directories(folder / "images");
    int image = 0;
    for (size_t upper = 0; upper < 3; ++upper) {
      for (size_t lower = 0; lower < 3; ++lower) {
        if (upper == lower) continue;
        write_file(std::filesystem::path(folder / "images") / cat(image, ".png"),
                   data::encode_png(two_colours(upper, lower)));
        for (const std::string& caption :
             {cat(kColours[upper], " over ", kColours[lower]), cat(kColours[lower], " is under ", kColours[upper])}) {
          captions += cat(image, "\t", caption, "\n");
          text += cat(caption, "\n");
        }
        ++image;
      }
    }
    write_file(folder / "captions.tsv", captions);
    write_file(folder / "captions.txt", text);
    text::train_vocab(
        {.inputs = {folder / "captions.txt"}, .output = folder / "words.spm", .size = 100, .type = "word"});
    fovea::train::set_short_training(train, folder);
    data.features = {folder / "images"};
    data.captions = {folder / "captions.tsv"};
    data.vocabs = {folder / "words.spm"};
    data.mini_batch = 2;
    data.label_smoothing = 0;
    model.patch_size = 2;
    tasks::set_narrow_layers(model);
    model.enc_depth = model.dec_depth = 1;
  }
  void with_validation() {
    data.valid_captions = data.captions;
    data.valid_max_length = 8;
    train.valid_freq = 4;
  }
  std::unique_ptr<CaptionTask> task() const { return std::make_unique<CaptionTask>(train, data, model, 1); }
};

inline void run(const TestRun& test) { train::train_task<CaptionTask>(test.train, test.data, test.model); }

using train::bytes_of;

}  // namespace fovea::captions
