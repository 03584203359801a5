#pragma once
#include <cstdint>

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

}  // namespace fovea::train
