#pragma once

namespace fovea::nn {

// An entry of a checkpoint's progress: the updates, apart by blanks, of checkpoints that prune_checkpoints() keeps
// because `best` named them by validation data that the run has no longer.
inline constexpr const char* kFormerBestEntry = "former-best";

}  // namespace fovea::nn
