#pragma once
#include <cstdint>
#include <vector>

#include "fovea/base/executor.h"

namespace fovea::kernels {

// A word that may continue a row.
struct Candidate {
  int32_t token = 0;
  float log_prob = 0;
  bool operator==(const Candidate&) const = default;
};

// The possible continuations of each of R rows.
struct Continuations {
  std::vector<Candidate> best;         // [R, n], each row's by falling log-probability, equal ones by rising token
  std::vector<float> eos_log_prob;     // [R], of the end of the sentence
  std::vector<float> asked_log_probs;  // of words that the caller names
};

struct Logits {
  const float* data = nullptr;  // [rows, vocabulary], contiguous
  int64_t rows = 0, vocabulary = 0;
};

struct TopN {
  int64_t n = 1, eos = 0;         // n <= vocabulary
  Candidate* best = nullptr;      // [rows, n]: by falling log-softmax, equal ones by rising token
  float* eos_log_prob = nullptr;  // [rows]
  // Words whose log-softmax is wanted too: those of row r are asked[asked_offsets[r]] ... asked[asked_offsets[r + 1] -
  // 1].
  const int64_t* asked_offsets = nullptr;  // [rows + 1], or null
  const int32_t* asked = nullptr;
  float* asked_log_probs = nullptr;
};

// The n best tokens of every row by log-softmax and the log-probability of the end of the sentence, in two passes over
// a row. A row's result depends on that row alone. Returns how many rows have no log-softmax, because a logit is not a
// number or is infinite: theirs are -infinity.
int64_t top_n_log_softmax(const Logits& logits, const TopN& out, Executor& executor);

}  // namespace fovea::kernels
