#pragma once
#include <cstdint>
#include <string_view>

// Threads that the system lets this process have. OpenMP's library ends the program in its own words when it cannot
// start one, so the program asks first.
namespace fovea {

// Starts `wanted` threads beside the calling one and ends them again. Returns how many could be started: fewer where
// ulimit -u, a container or the memory for their stacks sets a limit.
int64_t startable_threads(int64_t wanted);

// Throws an Error that names `option` unless the process may have `threads` threads, the calling one included.
void require_threads(std::string_view option, int64_t threads);

}  // namespace fovea
