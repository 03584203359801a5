#pragma once
#include <ATen/record_function.h>

namespace fovea::ops {

// Shows an operator's work to PyTorch's profilers under this name while it lives. Backward passes are
// shown without it.
class Recorded {
 public:
  explicit Recorded(const char* name) : guard_(at::RecordScope::FUNCTION) {
    if (guard_.isActive()) guard_.before(name);
  }

 private:
  at::RecordFunction guard_;
};

}  // namespace fovea::ops
