#include "fovea/serve/pace.h"

#include <algorithm>
#include <cmath>

namespace fovea::serve {
namespace {

constexpr double kHalfLife = 30;     // seconds of work
constexpr double kLeastSeconds = 1;  // of work, before anything is said about it
constexpr double kTexts = 100;       // texts whose lengths count

}  // namespace

void Pace::add(const Step& step) {
  const std::lock_guard lock(mutex_);
  const double fading = std::exp2(-step.seconds / kHalfLife);
  seconds_ = seconds_ * fading + step.seconds;
  steps_ = steps_ * fading + 1;
  rows_ = rows_ * fading + static_cast<double>(step.rows);
  tokens_ = tokens_ * fading + step.tokens;
}

void Pace::add_text(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  const double fading = 1 - 1 / kTexts;
  texts_ = texts_ * fading + 1;
  text_tokens_ = text_tokens_ * fading + static_cast<double>(tokens);
}

double Pace::least_seconds(const Work& work, double before, int64_t rows) const {
  const std::lock_guard lock(mutex_);
  if (seconds_ < kLeastSeconds || rows_ == 0 || tokens_ == 0) return 0;
  const double step_seconds = seconds_ / steps_, tokens_per_row = tokens_ / rows_;
  const double at_once = std::max(static_cast<double>(rows), rows_ / steps_);
  const double steps = (work.tokens + before) / (tokens_per_row * at_once);
  return step_seconds * std::max(steps, work.steps);
}

double Pace::mean_text() const {
  const std::lock_guard lock(mutex_);
  return texts_ > 0 ? text_tokens_ / texts_ : 0;
}

}  // namespace fovea::serve
