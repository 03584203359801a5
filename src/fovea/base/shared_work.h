#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/collective.h"

namespace fovea {

// The results of `work` for the pieces 0 ... count - 1, in their order, in every process of the team: process r
// computes the pieces r, r + size ... After each round the processes exchange their results. If a signal stopped one of
// them, Interrupted is thrown in all.
std::vector<std::string> shared_work(Collective& team, int64_t count,
                                     const std::function<std::string(int64_t piece)>& work);

// Throws a UsageError if a launcher started several processes: each would do the same work, and write the same files.
// `what` cannot be shared, such as a command.
void require_one_process(std::string_view what);

}  // namespace fovea
