#pragma once
#include <cstdint>
#include <mutex>

namespace fovea::serve {

// The work of a request: `tokens`, each counted for every row that computes it, in texts that take at least `steps`
// steps one after the other.
struct Work {
  double tokens = 0, steps = 0;
};

// The speed of a model as it was measured; the last half minute of work counts most. For any thread.
class Pace {
 public:
  // A step: the seconds since the step before it, the rows that it computed, and the tokens of work that it finished.
  struct Step {
    double seconds = 0, tokens = 0;
    int64_t rows = 0;
  };
  void add(const Step& step);
  // A text that ended, with this number of new tokens.
  void add_text(int64_t tokens);

  // Returns the fewest seconds in which the work can be done beside `before` tokens of other requests, with `rows` rows
  // in each step. More rows never make a step faster, so this is the measured time of a step, at the tokens that a row
  // has finished in it. Returns 0 until a second of work was measured.
  double least_seconds(const Work& work, double before, int64_t rows) const;
  double mean_text() const;  // new tokens of a text; 0 until one has ended

 private:
  mutable std::mutex mutex_;
  double seconds_ = 0, steps_ = 0, rows_ = 0, tokens_ = 0;  // sums that fade
  double texts_ = 0, text_tokens_ = 0;
};

}  // namespace fovea::serve
