#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/kernels/layer/top_n.h"
#include "fovea/search/demands.h"

// Beam search without a model and without tensors: its caller scores the continuations. Greedy search is a beam of 1.
namespace fovea::search {

using kernels::Candidate, kernels::Continuations;

// The rows (hypotheses) whose continuations are to be scored, in the order of their sentences.
struct ScoredRows {
  // Row r continues row parents[r] of the call before by tokens[r]. -1: a new row, behind all others, which begins a
  // sentence with tokens[r].
  std::span<const int64_t> parents, tokens;  // [R]
  int64_t n = 1;                             // best continuations wanted of each row
  // Words whose log-probability is wanted whatever it is: those of row r are asked[asked_offsets[r]] and so on up to
  // asked_offsets[r + 1]. No offsets: no words.
  std::span<const int64_t> asked_offsets = {};  // [R + 1]
  std::span<const int32_t> asked = {};
};

enum class LengthPenalty : uint8_t { kPower, kGnmt };

// A hypothesis's score is log p / penalty(length); length counts the end of the sentence. x = 0: no penalty.
//   power: length^x (Marian, fairseq);  gnmt: ((5 + length) / 6)^x (Wu et al. 2016)
double length_penalty(LengthPenalty form, double x, int64_t length);

struct BeamOptions {
  int64_t beam_size = 5;
  double normalize = 1;
  LengthPenalty penalty = LengthPenalty::kPower;
  int64_t num_best = 1;             // hypotheses wanted, at most beam_size
  int64_t vocabulary = 0;           // number of tokens
  int64_t start = 0, eos = 0;       // first input; the end of a sentence
  std::vector<int64_t> never = {};  // tokens that no hypothesis has, as of probability 0; the others keep theirs
  bool ends_twice = false;  // hypotheses have several sentences, each with its end, and a second end ends the last
  std::optional<int64_t> first = {};  // the token with which each hypothesis begins, as of probability 1
};

struct Hypothesis {
  std::vector<int64_t> tokens;  // without the end that finished it
  double log_prob = 0;          // sum over the steps, the end of the sentence among them
  double score = 0;             // log_prob / length_penalty
  bool is_cut = false;          // its end was forced at the longest length
  bool says_all = true;         // the sentence's demands
};

// A sentence to search for.
struct BeamSentence {
  BeamOptions options;
  int64_t max_length = 0;  // tokens after which nothing but the end of the sentence may follow
  Demands demands = {};    // what each of its hypotheses must say; none by default
};

// A beam search whose sentences come and go between steps. Sentences do not depend on each other.
//
// A step keeps a sentence's beam_size best continuations that go on; an end of the sentence among its beam_size best
// is a finished hypothesis. A sentence is done with beam_size finished ones, or as soon as no live hypothesis can still
// come among the num_best best whatever follows; then its rows leave the batch. Equal scores: the lower token first,
// then the row that stood higher.
//
// Demands are met by dynamic beam allocation (Post and Vilar 2018): the rows are shared out among banks, one for each
// number of demanded tokens that a hypothesis has still to say; the tokens that a demand needs next are always among
// the continuations. A sentence ends only where it has said everything, and says it before the longest length.
class BeamSearch {
 public:
  BeamSearch();
  ~BeamSearch();
  BeamSearch(BeamSearch&& other) noexcept;
  BeamSearch& operator=(BeamSearch&& other) noexcept;

  // Adds a sentence, whose first row is behind the rows of the sentences before it in the next step. The demands must
  // fit the longest length. Returns the sentence's number: they rise.
  int64_t add(BeamSentence sentence);
  // Forgets a sentence; its rows are not in the next step. An unknown number changes nothing.
  void remove(int64_t sentence);

  // The rows of the next step; none if all sentences are done. The spans hold until the next call that is not const.
  ScoredRows rows() const;
  // Takes the continuations of rows(): each row's n best, or all if the vocabulary is smaller (then n is its size).
  void advance(const Continuations& next);

  // The best hypotheses of a sentence that is done, best first, at least one.
  struct Done {
    int64_t sentence;
    std::vector<Hypothesis> best;
  };
  // The sentences that are done since the last call, in the order of their numbers within a step.
  std::vector<Done> take();

 private:
  struct Running;
  void list_rows();

  std::vector<Running> running_;
  std::vector<Done> done_;
  std::vector<int64_t> parents_, tokens_, asked_offsets_;
  std::vector<int32_t> asked_;
  int64_t next_number_ = 0, n_ = 0, vocabulary_ = 0;
};

}  // namespace fovea::search
