#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Which defaults `fovea train` begins with: see spec/defaults.h.
namespace fovea::app {

// The edition that the arguments name: by --defaults, or by a file of -c. A train.yml from before there were editions
// names the first one. Nothing if no argument names one.
std::optional<int64_t> given_edition(const std::vector<std::string>& arguments);

// The edition of the run in a folder with checkpoints: the first one if they do not say.
int64_t edition_of_run(const std::filesystem::path& run);

}  // namespace fovea::app
