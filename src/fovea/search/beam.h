#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// Beam search over an abstract scorer: no model, no tensors. Greedy search is a beam of 1.
namespace fovea::search {

struct Candidate {
  int32_t token = 0;
  float log_prob = 0;
  bool operator==(const Candidate&) const = default;
};

// The possible continuations of each of R rows.
struct Continuations {
  std::vector<Candidate> best;      // [R, n], each row's by falling log-probability, equal ones by rising token
  std::vector<float> eos_log_prob;  // [R], of the end of the sentence
};

// Scores continuations of rows (hypotheses), which stand in the order of their sentences.
class Scorer {
 public:
  virtual ~Scorer() = default;
  // Row r continues row parents[r] of the call before by tokens[r]; in the first call row r is sentence r and tokens[r]
  // starts it. Fills `next` with each row's n best, or all if the vocabulary is smaller (then n is its size).
  virtual void step(std::span<const int64_t> parents, std::span<const int64_t> tokens, int64_t n,
                    Continuations& next) = 0;
};

enum class LengthPenalty : uint8_t { kPower, kGnmt };

// A hypothesis's score is log p / penalty(length); length counts the end of the sentence. x = 0: no penalty.
//   power: length^x (Marian, fairseq);  gnmt: ((5 + length) / 6)^x (Wu et al. 2016)
double length_penalty(LengthPenalty form, double x, int64_t length);

struct BeamOptions {
  int64_t beam_size = 5;
  double normalize = 1;
  LengthPenalty penalty = LengthPenalty::kPower;
  int64_t num_best = 1;               // hypotheses wanted, at most beam_size
  int64_t vocabulary = 0;             // number of tokens
  int64_t start = 0, eos = 0;         // first input; the end of a sentence
  std::optional<int64_t> never = {};  // a token that no hypothesis has, as of probability 0; the others keep theirs
  bool ends_twice = false;  // hypotheses have several sentences, each with its end, and a second end ends the last
};

struct Hypothesis {
  std::vector<int64_t> tokens;  // without the end that finished it
  double log_prob = 0;          // sum over the steps, the end of the sentence among them
  double score = 0;             // log_prob / length_penalty
};

// The best hypotheses of every sentence, best first, at least one. Sentence s ends after max_lengths[s] tokens at the
// latest: there nothing but the end of the sentence may follow.
//
// A step keeps a sentence's beam_size best continuations that go on; an end of the sentence among its beam_size best
// is a finished hypothesis. A sentence is done with beam_size finished ones, or as soon as no live hypothesis can still
// come among the num_best best whatever follows; then its rows leave the batch. Equal scores: the lower token first,
// then the row that stood higher.
std::vector<std::vector<Hypothesis>> beam_search(Scorer& scorer, std::span<const int64_t> max_lengths,
                                                 const BeamOptions& options);

}  // namespace fovea::search
