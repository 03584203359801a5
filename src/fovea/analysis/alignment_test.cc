#include "fovea/analysis/alignment.h"

#include <gmock/gmock.h>

#include <array>
#include <set>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::analysis::alignment_test {
namespace {

using testing::HasSubstr;

AlignmentWeights weights_in(const std::vector<float>& values, int64_t columns) {
  return {values.data(), std::ssize(values) / columns, columns, columns};
}

Links random_links(Rng& rng, int64_t sources, int64_t targets, double share) {
  Links links;
  for (int64_t i = 0; i < sources; ++i) {
    for (int64_t j = 0; j < targets; ++j) {
      if (rng.uniform() < share) links.push_back({i, j});
    }
  }
  return links;
}

TEST(StrongestLinks, AreTheFirstGreatestPositiveWeightOfARow) {
  const std::vector<float> values = {0.1F,  0.6F, 0.3F,   // the greatest
                                     0.4F,  0.2F, 0.4F,   // equal ones
                                     0.0F,  0.0F, 0.0F,   // a null row
                                     -1.0F, 0.0F, -0.5F,  // nothing positive
                                     0.0F,  0.0F, 1e-30F};
  EXPECT_EQ(strongest_links(weights_in(values, 3)), (Links{{0, 1}, {1, 0}, {2, 4}}));
}

TEST(StrongestLinks, LeaveOutWhatLiesBetweenRows) {
  const std::vector<float> values = {0.1F, 0.2F, 9.0F, 0.3F, 0.2F, 9.0F};
  EXPECT_EQ(strongest_links({values.data(), 2, 2, 3}), (Links{{0, 1}, {1, 0}}));
  EXPECT_EQ(strongest_links({values.data(), 2, 0, 3}), Links{});
  EXPECT_EQ(strongest_links({}), Links{});
}

TEST(Words, AreLinkedIfAnyOfTheirPiecesAre) {
  const std::vector<int64_t> source = {0, 0, 1, 3}, target = {0, 1, 1, 1};
  const Links pieces = {{0, 0}, {1, 0}, {1, 3}, {3, 1}, {3, 2}};
  EXPECT_EQ(links_of_words(pieces, {source, 4}, {target, 2}), (Links{{0, 0}, {0, 1}, {3, 1}}));
}

// The expected values follow from the definition, by pairs of words.
TEST(Words, HaveTheSumOverSourcePiecesAndTheMeanOverTargetPieces) {
  Rng rng(3);
  const std::vector<int64_t> source = {0, 1, 1, 1, 3}, target = {0, 0, 1, 2, 2, 2, 4};
  std::vector<float> values(source.size() * target.size());
  for (float& value : values) value = static_cast<float>(rng.uniform());
  const std::vector<float> words = weights_of_words(weights_in(values, std::ssize(source)), {source, 4}, {target, 5});
  ASSERT_EQ(words.size(), 20U);
  for (int64_t j = 0; j < 5; ++j) {
    for (int64_t i = 0; i < 4; ++i) {
      double sum = 0, pieces = 0;
      for (size_t t = 0; t < target.size(); ++t) {
        if (target[t] != j) continue;
        ++pieces;
        for (size_t s = 0; s < source.size(); ++s) sum += source[s] == i ? values[t * source.size() + s] : 0;
      }
      const double expected = pieces > 0 ? sum / pieces : 0;
      EXPECT_FLOAT_EQ(words[static_cast<size_t>(j * 4 + i)], static_cast<float>(expected)) << j << " " << i;
    }
  }
}

TEST(Words, SoftAndHardDiffer) {
  // Pieces b and c are one word: together they outweigh a, alone they do not.
  const std::vector<float> values = {0.4F, 0.3F, 0.3F};
  const std::vector<int64_t> source = {0, 1, 1}, target = {0};
  EXPECT_EQ(links_of_words(strongest_links(weights_in(values, 3)), {source, 2}, {target, 1}), (Links{{0, 0}}));
  const std::vector<float> soft = weights_of_words(weights_in(values, 3), {source, 2}, {target, 1});
  EXPECT_EQ(strongest_links(weights_in(soft, 2)), (Links{{1, 0}}));
}

TEST(Text, IsPharaohs) {
  EXPECT_EQ(print({{0, 0}, {1, 2}, {10, 3}}), "0-0 1-2 10-3");
  EXPECT_EQ(print({}), "");
}

TEST(Text, GoldLinksAreReadInEveryForm) {
  const GoldLinks plain = parse_gold_links(" 2-1  0p0 0-0\t1?2 2-1", {}, {3, 3});
  EXPECT_EQ(plain.sure, (Links{{0, 0}, {2, 1}}));
  EXPECT_EQ(plain.possible, (Links{{0, 0}, {1, 2}, {2, 1}}));
  const GoldLinks other = parse_gold_links("1-2 3p1", {.base = 1, .reversed = true}, {2, 3});
  EXPECT_EQ(other.sure, (Links{{1, 0}}));
  EXPECT_EQ(other.possible, (Links{{0, 2}, {1, 0}}));
  EXPECT_TRUE(parse_gold_links("", {}, {0, 0}).possible.empty());
}

TEST(Text, OtherGoldIsRefused) {
  for (const char* text : {"1", "1-", "-1", "1--2", "a-b", "1-2x", "1:2", "1-2-3", "-1-2", "1 - 2",
                           "99999999999999999999-1", "1-9999999999999999", "1.5-2", "p", "1s2"}) {
    const std::string said = message_of([&] { parse_gold_links(text, {}, {1000, 1000}); });
    EXPECT_THAT(said, HasSubstr("expected links such as 0-1, or with p or ? in place of -")) << text;
  }
}

TEST(Text, GoldLinksOutsideOfTheSentencesAreRefused) {
  const auto said = [](const char* line, const LinkFormat& format) {
    return message_of([&] { parse_gold_links(line, format, {3, 5}); });
  };
  EXPECT_EQ(said("0-0 2-4", {}), "nothing was thrown");
  EXPECT_EQ(said("3-4", {}),
            "link 3-4 is outside of the sentences, which have 3 source and 5 target words, counted from 0; is it for "
            "another text, or does it need --gold-base 1, --gold-reversed?");
  EXPECT_THAT(said("2-5", {}), HasSubstr("link 2-5 is outside"));
  EXPECT_THAT(said("0-1", {.base = 1}), HasSubstr("link 0-1 is outside"));
  EXPECT_THAT(said("4-1", {.base = 1}), HasSubstr("counted from 1; is it for another text, or does it need --gold-r"));
  EXPECT_EQ(said("4-2", {.reversed = true}), "nothing was thrown");
}

// The algorithm as it is published, on a grid: e target words, f source words.
class Grid {
 public:
  Grid(const Links& forward, const Links& backward, int64_t sources, int64_t targets)
      : forward_(forward.begin(), forward.end()),
        backward_(backward.begin(), backward.end()),
        sources_(sources),
        targets_(targets) {}

  Links grow_diag_final_and() {
    for (const Link& link : forward_) {
      if (backward_.contains(link)) found_.insert(link);
    }
    while (grow_once()) continue;
    final_and(forward_);
    final_and(backward_);
    return {found_.begin(), found_.end()};
  }

 private:
  bool source_is_aligned(int64_t f) const {
    return std::any_of(found_.begin(), found_.end(), [&](const Link& link) { return link.source == f; });
  }
  bool target_is_aligned(int64_t e) const {
    return std::any_of(found_.begin(), found_.end(), [&](const Link& link) { return link.target == e; });
  }
  bool grow_once() {
    constexpr std::array<std::pair<int, int>, 8> kSteps = {
        {{-1, 0}, {0, -1}, {1, 0}, {0, 1}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}}};  // (e, f)
    bool added = false;
    for (int64_t e = 0; e < targets_; ++e) {
      for (int64_t f = 0; f < sources_; ++f) {
        if (!found_.contains({f, e})) continue;
        for (const auto& [step_e, step_f] : kSteps) {
          const Link next{f + step_f, e + step_e};
          const bool in_union = forward_.contains(next) || backward_.contains(next);
          if ((!target_is_aligned(next.target) || !source_is_aligned(next.source)) && in_union)
            added |= found_.insert(next).second;
        }
      }
    }
    return added;
  }
  void final_and(const std::set<Link>& links) {
    for (int64_t e = 0; e < targets_; ++e) {
      for (int64_t f = 0; f < sources_; ++f) {
        if (!target_is_aligned(e) && !source_is_aligned(f) && links.contains({f, e})) found_.insert({f, e});
      }
    }
  }

  std::set<Link> forward_, backward_, found_;
  int64_t sources_, targets_;
};

TEST(Symmetrize, FollowsTheDefinitions) {
  Rng rng(11);
  int64_t grown = 0;
  for (int round = 0; round < 300; ++round) {
    const auto sources = static_cast<int64_t>(1 + rng.below(8)), targets = static_cast<int64_t>(1 + rng.below(8));
    const Links forward = random_links(rng, sources, targets, 0.25),
                backward = random_links(rng, sources, targets, 0.25);
    std::set<Link> all(forward.begin(), forward.end());
    Links common;
    for (const Link& link : backward) {
      if (!all.insert(link).second) common.push_back(link);
    }
    EXPECT_EQ(symmetrize(forward, backward, Symmetrization::kIntersect), common);
    EXPECT_EQ(symmetrize(forward, backward, Symmetrization::kUnion), Links(all.begin(), all.end()));
    const Links expected = Grid(forward, backward, sources, targets).grow_diag_final_and();
    EXPECT_EQ(symmetrize(forward, backward, Symmetrization::kGrowDiagFinalAnd), expected) << round;
    grown += expected.size() > common.size() && expected.size() < all.size() ? 1 : 0;
  }
  EXPECT_GT(grown, 100);  // the cases lie between the intersection and the union
}

TEST(Symmetrize, OfOneEmptyDirection) {
  const Links links = {{0, 0}, {1, 0}, {2, 2}};
  EXPECT_EQ(symmetrize(links, {}, Symmetrization::kIntersect), Links{});
  EXPECT_EQ(symmetrize({}, links, Symmetrization::kUnion), links);
  EXPECT_EQ(symmetrize(links, {}, Symmetrization::kGrowDiagFinalAnd), (Links{{0, 0}, {2, 2}}));
}

TEST(ErrorRate, FollowsTheDefinitionOverACorpus) {
  Rng rng(5);
  AlignmentCounts counts;
  double links = 0, sure = 0, in_sure = 0, in_possible = 0;
  for (int pair = 0; pair < 20; ++pair) {
    const Links found = random_links(rng, 6, 5, 0.3);
    GoldLinks gold{random_links(rng, 6, 5, 0.2), {}};
    std::set<Link> possible(gold.sure.begin(), gold.sure.end());
    for (const Link& link : random_links(rng, 6, 5, 0.2)) possible.insert(link);
    gold.possible.assign(possible.begin(), possible.end());
    counts.add(found, gold);
    links += static_cast<double>(found.size());
    sure += static_cast<double>(gold.sure.size());
    for (const Link& link : found) {
      in_possible += static_cast<double>(possible.count(link));
      for (const Link& other : gold.sure) in_sure += other == link ? 1 : 0;
    }
  }
  ASSERT_TRUE(counts.error_rate() && counts.precision() && counts.recall());
  // One division and one subtraction of whole numbers: equal to the bit.
  EXPECT_EQ(*counts.error_rate(), 1 - (in_sure + in_possible) / (links + sure));
  EXPECT_EQ(*counts.precision(), in_possible / links);
  EXPECT_EQ(*counts.recall(), in_sure / sure);
  EXPECT_LT(in_sure, in_possible);
}

TEST(ErrorRate, OfNothingIsNone) {
  AlignmentCounts counts;
  EXPECT_FALSE(counts.error_rate() || counts.precision() || counts.recall());
  counts.add({}, {{}, {{0, 0}}});
  EXPECT_FALSE(counts.error_rate() || counts.precision() || counts.recall());
  counts.add({}, {{{0, 0}}, {{0, 0}}});
  EXPECT_EQ(counts.error_rate(), 1.0);
  EXPECT_FALSE(counts.precision());
  EXPECT_EQ(counts.recall(), 0.0);
}

}  // namespace
}  // namespace fovea::analysis::alignment_test
