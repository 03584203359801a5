#include "fovea/models/diverged.h"

#include "fovea/base/error.h"

namespace fovea::models {

void refuse_diverged() {
  throw Error(
      "the model gives scores that are not finite numbers; it diverged in training: use an earlier checkpoint, or "
      "train with a lower --learn-rate");
}

}  // namespace fovea::models
