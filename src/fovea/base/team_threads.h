#pragma once
#include <cstdint>

#include "fovea/base/collective.h"

namespace fovea {

// The number of threads with which the processes of a team share the processors of each host: `given` if it is not 0,
// else a fair part. 0 for a process alone: as many as there are. All processes call this together.
int64_t threads_in_team(Collective& team, int64_t given);

}  // namespace fovea
