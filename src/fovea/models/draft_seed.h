#pragma once
#include <cstdint>

#include "fovea/base/rng.h"

namespace fovea::models {

// Returns the seed of draft `index` of all, of which each prompt has `count`. It depends on the prompt and on the place
// among its drafts, so `count` does not change it.
inline uint64_t draft_seed(int64_t seed, int64_t index, int64_t count) {
  const uint64_t of_prompt = hash_combine(static_cast<uint64_t>(seed), static_cast<uint64_t>(index / count));
  return hash_combine(of_prompt, static_cast<uint64_t>(index % count));
}

}  // namespace fovea::models
