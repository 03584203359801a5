#pragma once
#include <algorithm>

namespace fovea::train {

// When the log shows the progress of a process before its first line of --disp-freq, which can be minutes away: after
// the first update, and then each time that the training has lasted twice as long as at the line before.
class FirstLines {
 public:
  // `seconds` is how long the process has trained.
  bool is_due(double seconds) {
    if (seconds < next_) return false;
    next_ = 2 * std::max(seconds, kLeastSeconds);
    return true;
  }
  bool is_first() const { return next_ == 0; }

 private:
  static constexpr double kLeastSeconds = 1;
  double next_ = 0;
};

}  // namespace fovea::train
