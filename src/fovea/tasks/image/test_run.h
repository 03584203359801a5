#pragma once
#include <filesystem>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/data/png.h"
#include "fovea/tasks/image/task.h"
#include "fovea/tasks/test_run.h"

namespace fovea::image {

// An image with a slope of its own in each channel, and a little noise.
inline data::Image test_image(const data::ImageShape& shape, Rng& rng) {
  data::Image image = {shape, {}};
  const auto from = static_cast<int64_t>(rng.below(100)), slope = static_cast<int64_t>(rng.below(20));
  for (int64_t i = 0; i < shape.values(); ++i) {
    const int64_t column = i / shape.channels % shape.width, channel = i % shape.channels;
    image.values.push_back(
        static_cast<uint8_t>(from + slope * column + 30 * channel + static_cast<int64_t>(rng.below(4))));
  }
  return image;
}

// Writes a folder of `count` PNG files.
inline std::string write_images(const std::string& folder, int64_t count, const data::ImageShape& shape,
                                uint64_t seed) {
  std::filesystem::create_directories(folder);
  Rng rng(seed);
  for (int64_t i = 0; i < count; ++i)
    write_file(std::filesystem::path(folder) / cat(i, ".png"), data::encode_png(test_image(shape, rng)));
  return folder;
}

// A training of a tiny model on ten made-up images of 4 x 5 pixels.
struct TestRun : tasks::TestRunOf<ImageTask, Options, ImageConfig> {
  TestRun() {
    data.train_sets = {write_images(folder / "train", 10, {4, 5, 3}, 1)};
    data.mini_batch = 3;
    model.transformer_positions = "image";
    model.dec_depth = 2;
  }
  void with_validation() {
    data.valid_sets = {write_images(folder / "valid", 4, {4, 5, 3}, 2)};
    train.valid_freq = 4;
  }
};

using train::bytes_of;

}  // namespace fovea::image
