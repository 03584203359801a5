#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "fovea/train/cost_watch.h"

namespace fovea::train {

// These structs are a run's state, beside its weights and moments: everything that decides how it continues.
struct BestValue {
  std::optional<double> value;
  int64_t updates = 0;  // when it was reached
  int64_t stalled = 0;  // validations since
};

struct TrainState {
  int64_t updates = 0;
  int64_t epoch = 1, batch = 0;               // the next batch is this one of the epoch
  int64_t skipped = 0, skipped_in_a_row = 0;  // updates left out for a gradient that was not finite
  int64_t roll_backs = 0;                     // to earlier checkpoints, see roll_back.h
  CostWatch watch;                            // empty where a divergence ends the run (--max-rollbacks 0)
  int64_t validated = 0;                      // updates at the last validation that was finished
  std::optional<double> learn_rate;           // of the last update; none before the first
  double seconds = 0;      // of training, kept only for --stop-after-seconds: else files would differ from run to run
  std::string data;        // fingerprint of the data and of what orders it
  std::string valid_data;  // fingerprint of the data that `best` is of; empty: no validation yet
  std::map<std::string, BestValue> best;  // by metric
};

std::map<std::string, std::string> to_map(const TrainState& state);
// Throws an Error that begins with `origin`, the file's name, for a missing or malformed entry, and for a number that
// no run reaches: below 0, more epochs than updates, a validation of a later update.
TrainState from_map(const std::map<std::string, std::string>& map, const std::string& origin);

}  // namespace fovea::train
