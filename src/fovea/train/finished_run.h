#pragma once
#include <optional>
#include <string>

#include "fovea/train/run_training.h"

namespace fovea::train {

// Why the run in config.model ended, if it did and nothing is left to do under the present options: its record says so,
// its newest checkpoint is whole and of the run's end, and the options are those of the process that ended it, except
// those of the machine and the log. Reads no data. Nothing for any other run.
std::optional<std::string> reason_of_finished_run(const Run& run);

// The log's last line of a run that is done; `was_done`: before this process made an update.
void say_finished(const std::string& reason, bool was_done);

}  // namespace fovea::train
