#pragma once
#include <filesystem>
#include <span>

#include "fovea/nn/identity.h"

namespace fovea::train {

// Throws an Error for a difference between the model of the run in `run`, first, and that of the options, second.
[[noreturn]] void refuse_other_model(const nn::IdentityDifference& difference, const std::filesystem::path& run);

// Throws an Error that names all options of a command, second, that differ from those of the model of the run in `run`,
// first. Names the command that continues the run, if its folder has the options.
[[noreturn]] void refuse_options(std::span<const nn::IdentityDifference> options, const std::filesystem::path& run);

// Throws an Error that names the first difference unless the run's model, `saved`, is the one that is wanted.
void check_same_model(const nn::Identity& saved, const nn::Identity& wanted, const std::filesystem::path& run);

}  // namespace fovea::train
