#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tasks/decoder_options.h"

namespace fovea::image {

// `fovea score` for image models.
struct ScoreOptions : TrainedModelOptions, LogOptions {
  std::vector<std::string> train_sets;
  std::string output = "-", level = "set";
  int64_t mini_batch = 16;

  static constexpr auto fields() {
    using C = ScoreOptions;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets,
              "images to score: folders of PNG files, PNG files, .npy arrays, binary batches of CIFAR-10", "t"),
        named("output", &C::output, "where the results go; - is standard output", "o"),
        choice("level", &C::level,
               "measures of all images together, or the log-probability (natural logarithm) of each image",
               "set|image"),
        number("mini-batch", &C::mini_batch, "images computed together; results do not depend on it", 1, 1e6));
    return std::tuple_cat(tasks::decoder_fields<C>("float32|bfloat16"), own, LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets}; }
};
void validate(const ScoreOptions& options);

// Returns the number of images scored.
int64_t run_score(const ScoreOptions& options);

}  // namespace fovea::image
