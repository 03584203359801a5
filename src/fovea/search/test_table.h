#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/search/beam.h"

namespace fovea::search {

// A toy language: the log-probabilities of the next token depend on the sentence and the whole history by a hash.
struct Table {
  int64_t vocabulary = 5;
  uint64_t seed = 1;
  bool ties = false;  // every continuation equally likely

  std::vector<double> next(int64_t sentence, const std::vector<int64_t>& history) const {
    Rng rng(seed, static_cast<uint64_t>(sentence));
    uint64_t key = rng();
    for (const int64_t token : history) key = hash_combine(key, static_cast<uint64_t>(token));
    std::vector<double> weights;
    Rng draws(key);
    for (int64_t i = 0; i < vocabulary; ++i) weights.push_back(ties ? 1 : std::exp(2 * draws.normal()));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    // In float, as a scorer gives them, so that sums agree exactly.
    for (double& w : weights) w = static_cast<float>(std::log(w / sum));
    return weights;
  }
};

// Scores continuations of rows.
class Scorer {
 public:
  virtual ~Scorer() = default;
  // Fills `next` as BeamSearch::advance() takes it.
  virtual void step(const ScoredRows& rows, Continuations& next) = 0;
};

// Gives the best hypotheses of each sentence to `take` as soon as it is done.
inline void beam_search(Scorer& scorer, std::vector<BeamSentence> sentences,
                        const std::function<void(int64_t sentence, std::vector<Hypothesis> best)>& take) {
  BeamSearch search;
  for (BeamSentence& sentence : sentences) search.add(std::move(sentence));
  Continuations next;
  while (!search.rows().parents.empty()) {
    scorer.step(search.rows(), next);
    search.advance(next);
    for (BeamSearch::Done& done : search.take()) take(done.sentence, std::move(done.best));
  }
}

inline std::vector<std::vector<Hypothesis>> beam_search(Scorer& scorer, std::vector<BeamSentence> sentences) {
  std::vector<std::vector<Hypothesis>> results(sentences.size());
  beam_search(scorer, std::move(sentences), [&](int64_t sentence, std::vector<Hypothesis> best) {
    results[static_cast<size_t>(sentence)] = std::move(best);
  });
  return results;
}

// Sentences with the same options: sentence s ends after max_lengths[s] tokens at the latest.
inline std::vector<std::vector<Hypothesis>> beam_search(Scorer& scorer, std::span<const int64_t> max_lengths,
                                                        const BeamOptions& options) {
  std::vector<BeamSentence> sentences;
  for (const int64_t max_length : max_lengths) sentences.push_back({options, max_length});
  return beam_search(scorer, std::move(sentences));
}

// Scores rows whose sentence is the token that starts it.
class StartScorer final : public Scorer {
 public:
  StartScorer(const Table& table, int64_t eos) : table_(table), eos_(eos) {}

  void step(const ScoredRows& scored, Continuations& next) override {
    std::vector<Row> rows;
    for (size_t r = 0; r < scored.parents.size(); ++r) {
      if (scored.parents[r] < 0) {
        rows.push_back({scored.tokens[r], {}});
      } else {
        rows.push_back(rows_.at(static_cast<size_t>(scored.parents[r])));
        rows.back().history.push_back(scored.tokens[r]);
      }
    }
    rows_ = std::move(rows);
    EXPECT_TRUE(std::ranges::is_sorted(rows_, {}, &Row::sentence));
    next = {};
    for (size_t r = 0; r < rows_.size(); ++r) score(scored, r, next);
  }

 private:
  struct Row {
    int64_t sentence;
    std::vector<int64_t> history;
  };
  void score(const ScoredRows& scored, size_t r, Continuations& next) const {
    const std::vector<double> log_probs = table_.next(rows_[r].sentence, rows_[r].history);
    std::vector<Candidate> all;
    for (size_t i = 0; i < log_probs.size(); ++i)
      all.push_back({static_cast<int32_t>(i), static_cast<float>(log_probs[i])});
    std::ranges::stable_sort(all, std::ranges::greater(), &Candidate::log_prob);
    next.best.insert(next.best.end(), all.begin(), all.begin() + scored.n);
    next.eos_log_prob.push_back(static_cast<float>(log_probs[static_cast<size_t>(eos_)]));
    if (scored.asked_offsets.empty()) return;
    for (int64_t i = scored.asked_offsets[r]; i < scored.asked_offsets[r + 1]; ++i) {
      next.asked_log_probs.push_back(
          static_cast<float>(log_probs[static_cast<size_t>(scored.asked[static_cast<size_t>(i)])]));
    }
  }

  Table table_;
  int64_t eos_;
  std::vector<Row> rows_;
};

}  // namespace fovea::search
