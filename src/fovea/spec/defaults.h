#pragma once
#include <cstdint>

// The editions of the values that `fovea train` takes for options that are not given. A run keeps its edition: its
// checkpoints and its train.yml name it, and --defaults chooses it.
//
// The members of the configurations begin with edition 1, and must keep these values: a checkpoint or a train.yml that
// lacks a field is older than the field, and means them. A later edition is a function use_defaults() of a task, which
// `fovea train` calls before it reads any option.
namespace fovea {

inline constexpr int64_t kFirstDefaults = 1, kNewestDefaults = 2;

}  // namespace fovea
