#pragma once
#include <ATen/ops/empty.h>

#include <cstdint>

#include "fovea/base/rng.h"

namespace fovea::bench {

// Tokens [count] of a vocabulary, of which small ids are frequent, as in text.
inline at::Tensor made_tokens(int64_t count, int64_t vocabulary, Rng& rng) {
  at::Tensor tokens = at::empty({count}, at::kLong);
  auto* ids = tokens.mutable_data_ptr<int64_t>();
  for (int64_t t = 0; t < count; ++t) {
    const double rank = rng.uniform();
    ids[t] = static_cast<int64_t>(rank * rank * rank * static_cast<double>(vocabulary));
  }
  return tokens;
}

}  // namespace fovea::bench
