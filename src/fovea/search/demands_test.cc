#include "fovea/search/demands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "fovea/base/rng.h"
#include "fovea/search/beam.h"
#include "fovea/search/test_table.h"

namespace fovea::search::demands_test {
namespace {

using Tokens = std::vector<int64_t>;
constexpr int64_t kEos = 0;

struct Problem {
  std::vector<std::vector<Phrase>> demands;
  std::vector<bool> continues;  // of each token; none: no token does
};

// Whether a text says all demands from number `first` on, with tokens that are not used yet: tries every place.
bool says(const Tokens& text, const Problem& problem, size_t first, std::vector<bool>& used) {
  if (first == problem.demands.size()) return true;
  for (const Phrase& phrase : problem.demands[first]) {
    const size_t size = phrase.tokens.size();
    for (size_t at = 0; at + size <= text.size(); ++at) {
      if (phrase.only_first && at > 0) break;
      const auto begin = static_cast<std::ptrdiff_t>(at);
      if (!std::equal(phrase.tokens.begin(), phrase.tokens.end(), text.begin() + begin)) continue;
      if (std::any_of(used.begin() + begin, used.begin() + begin + std::ssize(phrase.tokens), std::identity()))
        continue;
      const bool goes_on = !problem.continues.empty() && at + size < text.size() &&
                           problem.continues[static_cast<size_t>(text[at + size])];
      if (phrase.ends_word && goes_on) continue;
      std::fill_n(used.begin() + begin, size, true);
      const bool rest = says(text, problem, first + 1, used);
      std::fill_n(used.begin() + begin, size, false);
      if (rest) return true;
    }
  }
  return false;
}
bool says(const Tokens& text, const Problem& problem) {
  std::vector<bool> used(text.size());
  return says(text, problem, 0, used);
}

Demands demands_of(const Problem& problem) {
  return {problem.demands,
          problem.continues.empty() ? nullptr : std::make_shared<const std::vector<bool>>(problem.continues)};
}

std::vector<Hypothesis> search(const Table& table, const Problem& problem, int64_t beam, int64_t max_length,
                               int64_t num_best = 1) {
  StartScorer scorer(table, kEos);
  const BeamOptions options{
      .beam_size = beam, .normalize = 1, .num_best = num_best, .vocabulary = table.vocabulary, .start = 1, .eos = kEos};
  return beam_search(scorer, {{options, max_length, demands_of(problem)}}).front();
}

// Phrases of random tokens of a small vocabulary, so that they overlap, repeat and begin alike.
Problem random_problem(uint64_t seed, int64_t vocabulary) {
  Rng rng(seed, 5);
  const auto token = [&] { return static_cast<int64_t>(1 + rng.below(static_cast<uint64_t>(vocabulary - 1))); };
  Problem problem;
  if (rng.below(2) == 0) {
    for (int64_t t = 0; t < vocabulary; ++t) problem.continues.push_back(t == vocabulary - 1);
  }
  for (uint64_t d = 1 + rng.below(3); d > 0; --d) {
    std::vector<Phrase> phrases;
    for (uint64_t p = 1 + rng.below(2); p > 0; --p) {
      Phrase phrase;
      for (uint64_t i = 1 + rng.below(3); i > 0; --i) phrase.tokens.push_back(token());
      phrase.ends_word = !problem.continues.empty();
      phrases.push_back(phrase);
      if (rng.below(3) == 0) {
        phrase.tokens.front() = token();
        phrase.only_first = true;
        phrases.push_back(phrase);
      }
    }
    problem.demands.push_back(phrases);
  }
  return problem;
}

TEST(Demands, EveryHypothesisSaysThemWithinTheLongestLength) {
  int64_t tight = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const int64_t vocabulary = 5 + static_cast<int64_t>(seed % 4);
    Problem problem = random_problem(seed, vocabulary);
    // The token that continues a word begins no phrase, as no word begins with one.
    for (auto& phrases : problem.demands) {
      for (Phrase& phrase : phrases) {
        if (!problem.continues.empty() && problem.continues[static_cast<size_t>(phrase.tokens.front())])
          phrase.tokens.front() = 1;
      }
    }
    const int64_t least = demands_of(problem).missing({});
    for (const int64_t beam : {1, 2, 5}) {
      for (const int64_t more : {0, 2, 9}) {
        const auto found = search({vocabulary, seed}, problem, beam, least + more, beam);
        ASSERT_FALSE(found.empty()) << seed;
        for (const Hypothesis& hypothesis : found) {
          EXPECT_LE(std::ssize(hypothesis.tokens), least + more) << seed;
          if (!hypothesis.says_all) ++tight;
          EXPECT_TRUE(!hypothesis.says_all || says(hypothesis.tokens, problem)) << seed << " " << beam << " " << more;
          EXPECT_EQ(demands_of(problem).unsaid(hypothesis.tokens).empty(), hypothesis.says_all);
        }
      }
    }
  }
  // A phrase that begins like another can lead a search that has no token to spare astray.
  EXPECT_LT(tight, 20);
}

// All texts of at most `most` tokens.
void each_text(int64_t vocabulary, int64_t most, Tokens& text, const std::function<void(const Tokens&)>& see) {
  see(text);
  if (std::ssize(text) == most) return;
  for (int64_t token = 1; token < vocabulary; ++token) {
    text.push_back(token);
    each_text(vocabulary, most, text, see);
    text.pop_back();
  }
}

TEST(Demands, AWideBeamFindsTheBestTextThatSaysThem) {
  const std::vector<Problem> problems = {{{{Phrase{{1, 2}}}}, {}},
                                         {{{Phrase{{1}}}, {Phrase{{3}}}}, {}},
                                         {{{Phrase{{2, 2}}, Phrase{{3}, true}}}, {}},
                                         {{{Phrase{{1}, false, true}}}, {false, false, false, true}}};
  for (size_t p = 0; p < problems.size(); ++p) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const Table table{4, seed};
      Tokens best, text;
      double best_score = -1e9;
      each_text(4, 4, text, [&](const Tokens& candidate) {
        if (!says(candidate, problems[p])) return;
        double sum = 0;
        Tokens history;
        for (const int64_t token : candidate) {
          sum += table.next(1, history)[static_cast<size_t>(token)];
          history.push_back(token);
        }
        sum += table.next(1, history)[kEos];
        const double score = sum / static_cast<double>(candidate.size() + 1);
        if (score > best_score) best = candidate, best_score = score;
      });
      const auto found = search(table, problems[p], 1000, 4);
      EXPECT_EQ(found.front().tokens, best) << p << " " << seed;
      EXPECT_DOUBLE_EQ(found.front().score, best_score);
    }
  }
}

// Phrases: New; New York; Hund, whose word token 9 continues.
TEST(Demands, TheLongerPhraseTakesItsTokensAndAWordThatGoesOnDoesNotCount) {
  Problem problem;
  problem.demands = {{Phrase{{1}, false, true}}, {Phrase{{1, 2}, false, true}}, {Phrase{{4}, false, true}}};
  problem.continues.assign(10, false);
  problem.continues[9] = true;
  const Demands demands = demands_of(problem);
  const auto unsaid = [&](const Tokens& tokens) { return demands.unsaid(tokens); };
  EXPECT_EQ(unsaid({}), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(unsaid({1}), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(unsaid({1, 2}), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(unsaid({1, 2, 5, 1}), (std::vector<size_t>{2}));
  EXPECT_EQ(unsaid({1, 9}), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(unsaid({1, 2, 9, 4}), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(unsaid({1, 5, 1, 2, 4, 5}), (std::vector<size_t>{}));
  EXPECT_EQ(unsaid({4, 9, 1, 1, 2}), (std::vector<size_t>{2}));
  EXPECT_EQ(demands.missing({}), 4);
}

TEST(Demands, OfEqualPhrasesEachIsSaid) {
  const Problem problem{{{Phrase{{2}}}, {Phrase{{2}}}}, {}};
  EXPECT_EQ(demands_of(problem).unsaid(Tokens{2}), (std::vector<size_t>{1}));
  const auto found = search({5, 3}, problem, 3, 6);
  EXPECT_GE(std::ranges::count(found.front().tokens, 2), 2);
}

}  // namespace
}  // namespace fovea::search::demands_test
