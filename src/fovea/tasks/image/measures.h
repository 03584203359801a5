#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "fovea/train/task.h"

namespace fovea::image {

// The measured values of images under a model.
struct ImageScore {
  double nll = 0;  // sum of -log p over their values, in nats
  int64_t images = 0;
  int64_t values = 0, correct = 0;  // values scored, and how many of them were the most probable
  bool operator==(const ImageScore&) const = default;
};

// bits-per-dim and cross-entropy (nats), both per value, and accuracy.
std::span<const train::Measure> measures();

// The value of one of these measures; NaN without images.
double value_of(const ImageScore& score, std::string_view measure);

}  // namespace fovea::image
