#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/search/beam.h"
#include "fovea/search/test_table.h"

namespace fovea::search::search_test {
namespace {

class TableScorer final : public Scorer {
 public:
  TableScorer(const Table& table, int64_t eos) : table_(table), eos_(eos) {}

  void step(const ScoredRows& scored, Continuations& next) override {
    std::vector<Row> rows;
    for (size_t r = 0; r < scored.parents.size(); ++r) {
      if (scored.parents[r] < 0) {
        rows.push_back({sentences_++, {}});
      } else {
        rows.push_back(rows_.at(static_cast<size_t>(scored.parents[r])));
        rows.back().history.push_back(scored.tokens[r]);
      }
    }
    rows_ = rows;
    rows_scored += static_cast<int64_t>(rows.size());
    EXPECT_TRUE(std::ranges::is_sorted(rows_, {}, &Row::sentence));
    next = {};
    for (const Row& row : rows_) {
      const std::vector<double> log_probs = table_.next(row.sentence, row.history);
      std::vector<int32_t> order(log_probs.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
        return log_probs[static_cast<size_t>(a)] > log_probs[static_cast<size_t>(b)];
      });
      for (int64_t i = 0; i < scored.n; ++i) {
        const int32_t token = order[static_cast<size_t>(i)];
        next.best.push_back({token, static_cast<float>(log_probs[static_cast<size_t>(token)])});
      }
      next.eos_log_prob.push_back(static_cast<float>(log_probs[static_cast<size_t>(eos_)]));
    }
  }

  int64_t rows_scored = 0;

 private:
  struct Row {
    int64_t sentence;
    std::vector<int64_t> history;
  };
  Table table_;
  int64_t eos_;
  int64_t sentences_ = 0;  // that have begun
  std::vector<Row> rows_;
};

std::vector<std::vector<Hypothesis>> search(const Table& table, const std::vector<int64_t>& max_lengths,
                                            BeamOptions options) {
  options.vocabulary = table.vocabulary;
  TableScorer scorer(table, options.eos);
  return beam_search(scorer, max_lengths, options);
}

double log_prob(const Table& table, int64_t sentence, const std::vector<int64_t>& tokens, int64_t eos) {
  std::vector<int64_t> history;
  double sum = 0;
  for (const int64_t token : tokens) {
    sum += table.next(sentence, history)[static_cast<size_t>(token)];
    history.push_back(token);
  }
  return sum + table.next(sentence, history)[static_cast<size_t>(eos)];
}

// Every hypothesis of at most `max_length` tokens.
void enumerate(int64_t vocabulary, int64_t eos, int64_t max_length, std::vector<int64_t>& prefix,
               std::vector<std::vector<int64_t>>& all) {
  all.push_back(prefix);
  if (static_cast<int64_t>(prefix.size()) == max_length) return;
  for (int64_t token = 0; token < vocabulary; ++token) {
    if (token == eos) continue;
    prefix.push_back(token);
    enumerate(vocabulary, eos, max_length, prefix, all);
    prefix.pop_back();
  }
}

TEST(BeamSearch, ASentenceIsGivenWhenItIsDone) {
  const Table table{4, 1};
  const BeamOptions options{.beam_size = 3, .num_best = 3, .vocabulary = 4, .eos = 1};
  const std::vector<int64_t> max_lengths = {6, 0, 3};
  const auto expected = search(table, max_lengths, options);
  std::vector<BeamSentence> sentences;
  for (const int64_t max_length : max_lengths) sentences.push_back({options, max_length});
  TableScorer scorer(table, options.eos);
  std::vector<std::vector<Hypothesis>> given(max_lengths.size());
  beam_search(scorer, sentences, [&](int64_t sentence, std::vector<Hypothesis> best) {
    EXPECT_TRUE(given[static_cast<size_t>(sentence)].empty()) << "given twice";
    if (sentence == 1) {
      EXPECT_EQ(scorer.rows_scored, 3) << "one without room for a token is done after the first step";
    }
    given[static_cast<size_t>(sentence)] = std::move(best);
  });
  EXPECT_GT(scorer.rows_scored, 3);
  for (size_t s = 0; s < expected.size(); ++s) {
    ASSERT_EQ(given[s].size(), expected[s].size());
    for (size_t i = 0; i < given[s].size(); ++i) EXPECT_EQ(given[s][i].tokens, expected[s][i].tokens);
  }
}

TEST(BeamSearch, AWideBeamIsExhaustive) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const auto penalty : {LengthPenalty::kPower, LengthPenalty::kGnmt}) {
      for (const double x : {0.0, 0.6, 1.0, 2.0}) {
        const Table table{4, seed};
        const int64_t eos = static_cast<int64_t>(seed % 4), max_length = 4;
        const BeamOptions options{.beam_size = 1000, .normalize = x, .penalty = penalty, .num_best = 5, .eos = eos};
        const auto found = search(table, {max_length, 2}, options);
        for (int64_t s = 0; s < 2; ++s) {
          std::vector<int64_t> prefix;
          std::vector<std::vector<int64_t>> all;
          enumerate(4, eos, s == 0 ? max_length : 2, prefix, all);
          std::vector<std::pair<double, std::vector<int64_t>>> scored;
          for (const auto& tokens : all) {
            const auto length = static_cast<double>(tokens.size() + 1);
            const double divisor = std::pow(penalty == LengthPenalty::kPower ? length : (5 + length) / 6, x);
            scored.emplace_back(log_prob(table, s, tokens, eos) / divisor, tokens);
          }
          std::ranges::stable_sort(scored, std::ranges::greater(), &std::pair<double, std::vector<int64_t>>::first);
          const auto& best = found[static_cast<size_t>(s)];
          ASSERT_EQ(best.size(), 5U);
          for (size_t i = 0; i < 5; ++i) {
            EXPECT_EQ(best[i].tokens, scored[i].second);
            EXPECT_DOUBLE_EQ(best[i].score, scored[i].first);
          }
        }
      }
    }
  }
}

// The search of one sentence as beam.h tells it, with no early end but that of beam_size finished hypotheses.
std::vector<Hypothesis> by_definition(const Table& table, int64_t sentence, int64_t max_length,
                                      const BeamOptions& options) {
  struct Continuation {
    double log_prob;
    int64_t token;
    size_t row;
  };
  std::vector<Hypothesis> live(1), finished;
  for (int64_t length = 1; !live.empty() && std::ssize(finished) < options.beam_size; ++length) {
    std::vector<Continuation> all;
    const bool is_given = length == 1 && max_length > 0 && options.first;
    if (is_given) all.push_back({0, *options.first, 0});
    for (size_t row = 0; row < live.size() && !is_given; ++row) {
      const std::vector<double> next = table.next(sentence, live[row].tokens);
      for (int64_t token = 0; token < table.vocabulary; ++token) {
        if ((length > max_length && token != options.eos) ||
            std::ranges::find(options.never, token) != options.never.end())
          continue;
        all.push_back({live[row].log_prob + next[static_cast<size_t>(token)], token, row});
      }
    }
    std::ranges::sort(all, {}, [](const Continuation& c) { return std::tuple(-c.log_prob, c.token, c.row); });
    std::vector<Hypothesis> longer;
    for (size_t rank = 0; rank < all.size() && std::ssize(longer) < options.beam_size; ++rank) {
      Hypothesis h{live[all[rank].row].tokens, all[rank].log_prob, 0};
      if (all[rank].token != options.eos) {
        h.tokens.push_back(all[rank].token);
        longer.push_back(h);
      } else if (static_cast<int64_t>(rank) < options.beam_size) {
        h.score = h.log_prob / length_penalty(options.penalty, options.normalize, length);
        finished.push_back(h);
      }
    }
    live = longer;
  }
  std::ranges::stable_sort(finished, std::ranges::greater(), &Hypothesis::score);
  finished.resize(std::min(finished.size(), static_cast<size_t>(options.num_best)));
  return finished;
}

// Narrow beams, where hypotheses fall out and the end of a sentence may rank behind the beam; ties; sentences of
// different lengths that leave the batch one after another.
TEST(BeamSearch, IsItsDefinition) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    for (const bool ties : {false, true}) {
      SCOPED_TRACE(cat("seed ", seed, ties ? ", ties" : ""));
      const Table table{2 + static_cast<int64_t>(seed % 5), seed, ties};
      BeamOptions options{.beam_size = 1 + static_cast<int64_t>(seed % 4),
                          .normalize = 0.5 * static_cast<double>(seed % 6)};
      options.penalty = seed % 2 == 0 ? LengthPenalty::kPower : LengthPenalty::kGnmt;
      options.num_best = 1 + static_cast<int64_t>(seed / 7) % options.beam_size;
      options.eos = static_cast<int64_t>(seed / 3) % table.vocabulary;
      const int64_t other = static_cast<int64_t>(seed / 5) % table.vocabulary;
      if (seed % 3 > 0 && other != options.eos) options.never = {other};
      if (seed % 4 == 1 && other != options.eos) options.first = other;
      const int64_t third = static_cast<int64_t>(seed / 2) % table.vocabulary;
      if (seed % 3 > 1 && third != options.eos && third != other && table.vocabulary > 3)
        options.never.push_back(third);
      const std::vector<int64_t> max_lengths = {12, 3, 0};
      const auto found = search(table, max_lengths, options);
      for (size_t s = 0; s < max_lengths.size(); ++s) {
        const auto want = by_definition(table, static_cast<int64_t>(s), max_lengths[s], options);
        ASSERT_EQ(found[s].size(), want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(found[s][i].tokens, want[i].tokens) << s << " " << i;
          EXPECT_EQ(found[s][i].score, want[i].score) << s << " " << i;
        }
      }
    }
  }
}

TEST(BeamSearch, OneIsGreedy) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Table table{7, seed};
    const int64_t eos = 3, max_length = 6;
    std::vector<int64_t> greedy;
    while (static_cast<int64_t>(greedy.size()) < max_length) {
      const auto next = table.next(0, greedy);
      const auto token = std::ranges::max_element(next) - next.begin();
      if (token == eos) break;
      greedy.push_back(token);
    }
    const auto found = search(table, {max_length}, {.beam_size = 1, .eos = eos});
    ASSERT_EQ(found[0].size(), 1U);
    EXPECT_EQ(found[0][0].tokens, greedy);
  }
}

TEST(BeamSearch, ScoresAreSumsOfSteps) {
  const std::vector<int64_t> max_lengths = {9, 0, 3, 12, 1, 20};
  for (const int64_t beam : {1, 2, 3, 8}) {
    const Table table{11, 77};
    const BeamOptions options{.beam_size = beam, .normalize = 0.7, .num_best = beam, .eos = 10};
    const auto found = search(table, max_lengths, options);
    for (size_t s = 0; s < found.size(); ++s) {
      ASSERT_FALSE(found[s].empty());
      for (size_t i = 0; i < found[s].size(); ++i) {
        const Hypothesis& h = found[s][i];
        EXPECT_LE(static_cast<int64_t>(h.tokens.size()), max_lengths[s]);
        EXPECT_DOUBLE_EQ(h.log_prob, log_prob(table, static_cast<int64_t>(s), h.tokens, 10));
        EXPECT_DOUBLE_EQ(h.score, h.log_prob / std::pow(static_cast<double>(h.tokens.size() + 1), 0.7));
        EXPECT_GE(found[s][i == 0 ? 0 : i - 1].score, h.score);
      }
    }
  }
}

// A sentence's result does not depend on the others in the batch.
TEST(BeamSearch, SentencesAreIndependent) {
  class Shifted final : public Scorer {  // sentence 0 of this one is sentence `shift` of the table
   public:
    Shifted(const Table& table, int64_t shift) : table_(table), shift_(shift) {}
    void step(const ScoredRows& rows, Continuations& next) override {
      std::vector<std::vector<int64_t>> histories;
      for (size_t r = 0; r < rows.parents.size(); ++r) {
        const bool is_new = rows.parents[r] < 0;
        histories.push_back(is_new ? std::vector<int64_t>{} : histories_[static_cast<size_t>(rows.parents[r])]);
        if (!is_new) histories.back().push_back(rows.tokens[r]);
      }
      histories_ = histories;
      next = {};
      for (const auto& history : histories_) {
        const auto log_probs = table_.next(shift_, history);
        std::vector<Candidate> all;
        for (size_t i = 0; i < log_probs.size(); ++i) {
          all.push_back({static_cast<int32_t>(i), static_cast<float>(log_probs[i])});
        }
        std::ranges::stable_sort(all, std::ranges::greater(), &Candidate::log_prob);
        next.best.insert(next.best.end(), all.begin(), all.begin() + rows.n);
        next.eos_log_prob.push_back(static_cast<float>(log_probs[2]));
      }
    }

   private:
    Table table_;
    int64_t shift_;
    std::vector<std::vector<int64_t>> histories_;
  };
  const Table table{9, 5};
  const BeamOptions options{.beam_size = 4, .num_best = 4, .vocabulary = 9, .eos = 2};
  const std::vector<int64_t> max_lengths = {12, 3, 7, 20, 5};
  const auto together = search(table, max_lengths, options);
  for (size_t s = 0; s < max_lengths.size(); ++s) {
    Shifted scorer(table, static_cast<int64_t>(s));
    const auto alone = beam_search(scorer, std::vector<int64_t>{max_lengths[s]}, options);
    ASSERT_EQ(alone[0].size(), together[s].size());
    for (size_t i = 0; i < alone[0].size(); ++i) {
      EXPECT_EQ(alone[0][i].tokens, together[s][i].tokens);
      EXPECT_EQ(alone[0][i].score, together[s][i].score);
    }
  }
}

TEST(BeamSearch, TiesTakeTheLowerToken) {
  const Table table{4, 1, true};
  const auto found = search(table, {2}, {.beam_size = 3, .normalize = 0, .num_best = 3, .eos = 3});
  // The end is the last of four equal tokens, so that nothing ends before its length; of the nine hypotheses of the
  // second step those with the lowest last token stay, in the order of their rows.
  std::vector<std::vector<int64_t>> tokens;
  for (const Hypothesis& h : found[0]) tokens.push_back(h.tokens);
  EXPECT_EQ(tokens, (std::vector<std::vector<int64_t>>{{0, 0}, {1, 0}, {2, 0}}));
}

// Stopping early must lose nothing against the same search that goes on to the end. A penalty lets longer hypotheses
// gain, so that a search with one goes on for longer.
TEST(BeamSearch, StopsOnlyWhenTheBestIsCertain) {
  for (const LengthPenalty penalty : {LengthPenalty::kPower, LengthPenalty::kGnmt}) {
    for (const double normalize : {0.0, 0.6, 1.0, 2.0}) {
      int64_t stopped_early = 0;
      for (uint64_t seed = 1; seed <= 60; ++seed) {
        const Table table{6, seed};
        BeamOptions options{.beam_size = 6, .normalize = normalize, .penalty = penalty, .vocabulary = 6, .eos = 0};
        TableScorer early(table, 0), late(table, 0);
        const auto one = beam_search(early, std::vector<int64_t>{5}, options);
        options.num_best = 6;  // decided later, by the sixth best
        const auto six = beam_search(late, std::vector<int64_t>{5}, options);
        EXPECT_EQ(one[0][0].tokens, six[0][0].tokens);
        EXPECT_EQ(one[0][0].score, six[0][0].score);
        EXPECT_LE(early.rows_scored, late.rows_scored);
        stopped_early += early.rows_scored < late.rows_scored ? 1 : 0;
      }
      EXPECT_GT(stopped_early, normalize == 0 ? 10 : 0) << normalize;
    }
  }
}

TEST(LengthPenalty, IsWhatThePapersSay) {
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::kPower, 1, 7), 7);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::kPower, 0, 7), 1);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::kGnmt, 1, 1), 1);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::kGnmt, 0.6, 7), std::pow(2.0, 0.6));
}

}  // namespace
}  // namespace fovea::search::search_test
