#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/config_problems.h"

namespace fovea::image {

// The options that training takes for this task alone.
struct Options {
  std::vector<std::string> train_sets, valid_sets;
  int64_t mini_batch = 16;
  bool flip = false;

  static auto fields() {
    using C = Options;
    return std::tuple(
        named(
            "train-sets", &C::train_sets,
            "images to learn from: folders of PNG files, PNG files, .npy arrays [N, H, W, C] of uint8, binary batches "
            "of CIFAR-10",
            "t"),
        field("valid-sets", &C::valid_sets, "images for validation"),
        number("mini-batch", &C::mini_batch, "images in a batch", 1, 1e9),
        field("flip", &C::flip, "mirror half of the training images, left to right, drawn for each epoch"));
  }

  // The files that training reads.
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, valid_sets}; }
};

inline void add_problems(const Options& options, Problems& problems) {
  problems.add_ranges(options);
  problems.add_if(options.train_sets.empty(), "--train-sets is missing; expected folders or files of images");
}

}  // namespace fovea::image
