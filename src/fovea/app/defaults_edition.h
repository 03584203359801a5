#pragma once
#include <cstdint>
#include <string>
#include <vector>

// The edition of defaults with which `fovea train` begins: see spec/defaults.h.
namespace fovea::app {

// The edition that the arguments of a training name: by --defaults, or by a file of -c. A train.yml from before there
// were editions names the first one. Otherwise that of the run that goes on in --model, or the newest for a new run.
int64_t edition_of(const std::vector<std::string>& arguments);

}  // namespace fovea::app
