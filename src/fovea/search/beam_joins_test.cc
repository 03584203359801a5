#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/base/rng.h"
#include "fovea/search/beam.h"
#include "fovea/search/test_table.h"

namespace fovea::search::beam_joins_test {
namespace {

constexpr int64_t kEos = 3;

// Sentences with beams, penalties, lengths and demands of their own.
BeamSentence some_sentence(int64_t number) {
  Rng rng(91, static_cast<uint64_t>(number));
  BeamSentence sentence;
  sentence.options.beam_size = 1 + static_cast<int64_t>(rng.below(6));
  sentence.options.num_best = 1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(sentence.options.beam_size)));
  sentence.options.normalize = 0.2 * static_cast<double>(rng.below(6));
  sentence.options.penalty = rng.below(2) == 0 ? LengthPenalty::kPower : LengthPenalty::kGnmt;
  sentence.options.vocabulary = 13;
  sentence.options.start = number, sentence.options.eos = kEos;
  if (rng.below(2) == 0) sentence.options.never = {5};
  sentence.max_length = static_cast<int64_t>(rng.below(20));
  if (rng.below(3) == 0 && sentence.max_length > 4)
    sentence.demands = Demands({{Phrase{{7, 9}}}, {Phrase{{8}}, Phrase{{10, 11}}}}, nullptr);
  return sentence;
}

std::vector<Hypothesis> alone(const Table& table, int64_t number) {
  StartScorer scorer(table, kEos);
  return beam_search(scorer, {some_sentence(number)}).front();
}

void expect_same(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& expected, int64_t number) {
  ASSERT_EQ(got.size(), expected.size()) << number;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << number;
    EXPECT_EQ(got[i].log_prob, expected[i].log_prob) << number;
    EXPECT_EQ(got[i].score, expected[i].score) << number;
    EXPECT_EQ(got[i].is_cut, expected[i].is_cut) << number;
  }
}

TEST(BeamSearch, SentencesThatJoinAndLeaveAreAsTheyAreAlone) {
  const Table table{13, 4};
  StartScorer scorer(table, kEos);
  BeamSearch search;
  Rng plan(17);
  std::set<int64_t> removed;
  std::map<int64_t, std::vector<Hypothesis>> found;
  int64_t added = 0;
  constexpr int64_t kCount = 300;
  while (added < kCount || !search.rows().parents.empty()) {
    for (uint64_t joins = plan.below(4); joins > 0 && added < kCount; --joins) {
      EXPECT_EQ(search.add(some_sentence(added)), added);
      ++added;
    }
    if (plan.below(5) == 0 && added > 8) {
      const int64_t number = added - 1 - static_cast<int64_t>(plan.below(8));
      if (!found.contains(number)) removed.insert(number);
      search.remove(number);
    }
    if (search.rows().parents.empty()) continue;
    Continuations next;
    scorer.step(search.rows(), next);
    search.advance(next);
    for (BeamSearch::Done& done : search.take()) {
      EXPECT_FALSE(removed.contains(done.sentence));
      found[done.sentence] = std::move(done.best);
    }
  }
  EXPECT_GT(removed.size(), 10U);
  EXPECT_EQ(found.size() + removed.size(), static_cast<size_t>(kCount));
  for (const auto& [number, best] : found) expect_same(best, alone(table, number), number);
}

TEST(BeamSearch, AHypothesisOfTheLongestLengthIsCut) {
  const Table table{13, 4};
  for (int64_t number = 0; number < 50; ++number) {
    for (const Hypothesis& hypothesis : alone(table, number)) {
      EXPECT_EQ(hypothesis.is_cut, std::ssize(hypothesis.tokens) == some_sentence(number).max_length);
    }
  }
}

}  // namespace
}  // namespace fovea::search::beam_joins_test
