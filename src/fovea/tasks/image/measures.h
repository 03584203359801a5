#pragma once
#include <cstdint>

#include "fovea/models/given_score.h"
#include "fovea/train/measure.h"

namespace fovea::image {

// The measured values of images under a model.
struct ImageScore : models::GivenScore {  // the tokens are the images' values
  int64_t images = 0;
  bool operator==(const ImageScore&) const = default;
};

// bits-per-dim and cross-entropy (nats), both per value, and accuracy.
// A value is NaN without images.
const train::MeasureTable<const ImageScore>& measures();

}  // namespace fovea::image
