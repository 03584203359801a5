#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/captions/inputs.h"

namespace fovea::captions {

// The options that training takes for this task alone.
struct Options {
  std::vector<std::string> features, captions, vocabs, valid_features, valid_captions;
  std::string image_ids, valid_image_ids;
  std::vector<std::string> splits = {"train", "restval"}, valid_splits = {"val"};
  int64_t mini_batch_words = 2048, mini_batch = 0, maxi_batch = 100;
  int64_t max_length = 100;
  double label_smoothing = 0.1;
  int64_t valid_beam_size = 1, valid_max_length = 50, valid_mini_batch = 64;

  static auto fields() {
    using C = Options;
    return std::tuple(
        field(
            "features", &C::features,
            "images to learn from: PNG files or folders of them, .npy arrays [N, H, W, C] of uint8, binary batches of "
            "CIFAR-10; or their features: .npy arrays [N, regions, width] of float32, or .safetensors files with a "
            "tensor [regions, width] for each image"),
        field("image-ids", &C::image_ids,
              "file of the images' ids, one per line, as captions name them (default: numbers from 0, or the names of "
              "the tensors)"),
        field("captions", &C::captions,
              "captions: TSV (id, caption), COCO's captions_*.json or Karpathy's dataset_*.json, may be compressed"),
        field("splits", &C::splits, "splits of Karpathy's file to learn from"),
        named("vocabs", &C::vocabs, "SentencePiece model of the captions", "v"),
        field("valid-features", &C::valid_features, "images for validation (default: --features)"),
        field("valid-image-ids", &C::valid_image_ids, "ids of --valid-features"),
        field("valid-captions", &C::valid_captions, "captions for validation"),
        field("valid-splits", &C::valid_splits, "splits of Karpathy's file for validation"),
        named(number("mini-batch-words", &C::mini_batch_words,
                     "tokens of captions in a batch, at most; all captions of an image are in one batch", 1, 1e9),
              "max-tokens"),
        number("mini-batch", &C::mini_batch, "images in a batch, at most (0: no limit)", 0, 1e9),
        number("maxi-batch", &C::maxi_batch, "batches' worth of images sorted by length together", 1, 1e6),
        number("max-length", &C::max_length, "longer training captions, in tokens, are left out", 1, 1e6),
        number("label-smoothing", &C::label_smoothing, "share of the target's mass spread over the vocabulary", 0,
               0.99),
        number("valid-beam-size", &C::valid_beam_size, "beam of the captions in validation", 1, 1000),
        number("valid-max-length", &C::valid_max_length, "tokens of a caption in validation, at most", 1, 1e6),
        number("valid-mini-batch", &C::valid_mini_batch, "images in a validation batch", 1, 1e9));
  }

  // The files that training reads.
  std::vector<std::vector<std::string>> inputs() const {
    return {features, captions, vocabs, valid_features, valid_captions, {image_ids, valid_image_ids}};
  }
  InputFiles train_files() const { return {.features = features, .ids = image_ids}; }
  InputFiles valid_files() const {
    if (valid_features.empty()) return train_files();
    return {valid_features, valid_image_ids, "--valid-features", "--valid-image-ids"};
  }
};

inline void add_problems(const Options& options, Problems& problems) {
  problems.add_ranges(options);
  problems.add_if(options.features.empty(), "--features is missing; expected files of images or of features");
  problems.add_if(options.captions.empty(), "--captions is missing; expected files of captions");
  problems.add_if(options.vocabs.size() != 1,
                  cat("--vocabs: got ", options.vocabs.size(), " files; expected the vocabulary of the captions"));
  problems.add_if(options.valid_captions.empty() && !options.valid_features.empty(),
                  "--valid-features needs --valid-captions");
  problems.add_if(options.valid_features.empty() && !options.valid_image_ids.empty(),
                  "--valid-image-ids needs --valid-features");
}

}  // namespace fovea::captions
