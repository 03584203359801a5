#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fovea::train {

// Watches the cost of a run for divergence, in windows of as many updates as log lines have (--disp-freq). A window is
// too high if its mean cost is above the running mean of the earlier windows by half of that mean and by 0.5 at least;
// three such windows in a row are a divergence. The running mean takes no high window. All of it belongs to the state
// of a run, so a run that resumes decides as one that never stopped.
struct CostWatch {
  double cost = 0, weight = 0;  // sums over the present window
  double mean = 0;              // running mean of the windows that were not high, in nats per unit of weight
  int64_t windows = 0;          // that the mean is of; 0: no mean yet
  int64_t high = 0;             // high windows in a row
  int64_t sound = 0;            // updates up to which the cost is known to be sound

  // Adds the cost of one more update: the sum of its losses, and the weight that the sum is over.
  void add(double update_cost, double update_weight) { cost += update_cost, weight += update_weight; }
  // Ends the window after `updates` updates.
  void end_window(int64_t updates);
  // Validation found a new best value after `updates` updates.
  void found_best(int64_t updates) { sound = updates; }
  bool has_diverged() const;

  bool operator==(const CostWatch&) const = default;
};

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
  std::vector<int64_t> former_best;       // updates of checkpoints that were best by earlier validation data
};

std::map<std::string, std::string> to_map(const TrainState& state);
// Throws an Error that begins with `origin`, the file's name, for a missing or malformed entry, and for a number that
// no run reaches: below 0, more epochs than updates, a validation of a later update.
TrainState from_map(const std::map<std::string, std::string>& map, const std::string& origin);

}  // namespace fovea::train
