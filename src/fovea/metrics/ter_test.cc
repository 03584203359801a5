#include "fovea/metrics/ter.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/metrics/edit_band.h"

namespace fovea::metrics::ter_test {
namespace {

using testing::ElementsAre;
using Texts = std::vector<std::string>;
using Words = std::vector<uint32_t>;

double ter_of(std::string_view hypothesis, const Texts& references, const TerOptions& options = {}) {
  const Ter ter(options);
  return ter.score(ter.segment(hypothesis, references));
}

// The words first, first + 1 ... last - 1.
Words range(uint32_t first, uint32_t last) {
  Words words(last - first);
  std::iota(words.begin(), words.end(), first);
  return words;
}

Words joined(const Words& a, const Words& b) {
  Words words = a;
  words.insert(words.end(), b.begin(), b.end());
  return words;
}

TEST(Ter, ByHand) {
  EXPECT_EQ(ter_of("a b c d", {"a b c d"}), 0);
  EXPECT_EQ(ter_of("a x c d", {"a b c d"}), 25) << "a substitution";
  EXPECT_EQ(ter_of("a c d", {"a b c d"}), 25) << "an insertion";
  EXPECT_EQ(ter_of("a b b c d", {"a b c d"}), 25) << "a deletion";
  EXPECT_EQ(ter_of("d a b c", {"a b c d"}), 25) << "a shift, in place of a deletion and an insertion";
  EXPECT_EQ(ter_of("c d e a b", {"a b c d e"}), 20) << "a shift of two words";
  EXPECT_EQ(ter_of("d x b c", {"a b c d"}), 50) << "a shift and a substitution";
  EXPECT_EQ(ter_of("a b c", {"d"}), 300) << "more than the reference has";
  EXPECT_EQ(Ter().signature(2), "nrefs:2|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0");
}

TEST(Ter, EmptyTexts) {
  EXPECT_EQ(ter_of("", {""}), 0);
  EXPECT_EQ(ter_of("", {"a b"}), 100);
  EXPECT_EQ(ter_of("a b c", {""}), 100) << "there is no length to divide by";
  EXPECT_EQ(ter_of(" \t\u3000", {"\u00a0"}), 0);
  EXPECT_EQ(Ter().score({}), 0);
  const Ter ter;
  const Texts none;
  EXPECT_THROW((void)ter.segment("a", none), Error);
}

// The fewest edits, by the mean length: one of (4 + 2) / 2.
TEST(Ter, SeveralReferences) {
  EXPECT_DOUBLE_EQ(ter_of("a b", {"a b c d", "a x"}), 100. / 3);
  EXPECT_DOUBLE_EQ(ter_of("a b", {"c d e", ""}), 100. * 2 / 1.5) << "an empty reference: both words are deleted";
}

TEST(Ter, StatisticsOfSegmentsAdd) {
  const Ter ter;
  const Texts one = {"a b c d"}, other = {"x"};
  TerStats sum = ter.segment("a b c d", one);
  sum += ter.segment("y", other);
  EXPECT_EQ(sum, (TerStats{.edits = 1, .reference_length = 5}));
  EXPECT_EQ(ter.score(sum), 20);
}

TEST(Ter, TextBeforeItIsSplit) {
  EXPECT_EQ(ter_of("THE CAT", {"the cat"}), 0);
  EXPECT_EQ(ter_of("THE CAT", {"the cat"}, {.case_sensitive = true}), 100);
  EXPECT_EQ(ter_of("yes, it's 1.5 &quot;km&quot;.", {"yes , it 's 1.5 \" km \" ."}), 100 * 8. / 9) << "1.5 alone";
  EXPECT_EQ(ter_of("yes, it's 1.5 &quot;km&quot;.", {"yes , it 's 1.5 \" km \" ."}, {.normalized = true}), 0);
  EXPECT_EQ(ter_of("yes! (no)", {"yes no"}, {.no_punct = true}), 0);
  EXPECT_EQ(ter_of("我爱你。", {"我 爱 他 。"}, {.normalized = true}), 100);
  EXPECT_EQ(ter_of("我爱你。", {"我 爱 他 。"}, {.normalized = true, .asian_support = true}), 25);
  EXPECT_EQ(ter_of("我 爱，", {"我 爱"}, {.no_punct = true}), 50);
  EXPECT_EQ(ter_of("我 爱，", {"我 爱"}, {.no_punct = true, .asian_support = true}), 0);
}

// A word moves at most 50 places; further away it is deleted and inserted.
TEST(Ter, ShiftsHaveADistance) {
  EXPECT_EQ(ter_edits(joined({0}, range(1, 51)), joined(range(1, 51), {0})), 1);
  EXPECT_EQ(ter_edits(joined({0}, range(1, 52)), joined(range(1, 52), {0})), 2);
}

// Ten words move at once. An eleventh, which is then in the way, needs a shift of its own.
TEST(Ter, ShiftsHaveASize) {
  EXPECT_EQ(ter_edits(joined(range(10, 20), range(0, 10)), range(0, 20)), 1);
  EXPECT_EQ(ter_edits(joined(range(11, 22), range(0, 11)), range(0, 22)), 2);
}

// Two blocks of equal words offer more than 1000 shifts in the first search, and the best of them is lost. Blocks of
// three words offer few, and one shift exchanges them.
TEST(Ter, TriesAreCounted) {
  const auto exchanged = [](size_t count) {
    const Words ones(count, 1), twos(count, 2);
    return ter_edits(joined(ones, twos), joined(twos, ones));
  };
  EXPECT_EQ(exchanged(60), 120);
  EXPECT_EQ(exchanged(3), 1);
}

TEST(Ter, StopsBetweenShifts) {
  install_signal_handlers();
  const Texts reference = {"a b"};
  raise(SIGTERM);
  EXPECT_THROW((void)Ter().segment("b a", reference), Interrupted);
  clear_interrupt();
  EXPECT_EQ(Ter().segment("b a", reference).edits, 1);
}

// The distance of Levenshtein, by its definition.
int64_t full_distance(const Words& a, const Words& b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

Words random_words(Rng& rng, size_t most) {
  Words words(rng.below(most + 1));
  for (uint32_t& word : words) word = static_cast<uint32_t>(rng.below(4));
  return words;
}

// The errors of the alignment are a way from one text to the other, as cheap as the distance.
void expect_cheapest(const EditBand& band, const Words& reference) {
  const EditBand::Alignment alignment = band.alignment();
  int64_t matches = 0, last = -1;
  for (size_t j = 0; j < reference.size(); ++j) {
    const int64_t place = alignment.places[j];
    ASSERT_TRUE(last <= place && place < std::ssize(band.hypothesis()));
    if (!alignment.reference_errors[j]) {
      ASSERT_GT(place, last);
      ASSERT_EQ(band.hypothesis()[static_cast<size_t>(place)], reference[j]);
      ASSERT_FALSE(alignment.hypothesis_errors[static_cast<size_t>(place)]);
      ++matches;
    }
    last = place;
  }
  const int64_t of_hypothesis = std::ranges::count(alignment.hypothesis_errors, true);
  const int64_t of_reference = std::ranges::count(alignment.reference_errors, true);
  EXPECT_EQ(of_hypothesis + matches, std::ssize(band.hypothesis()));
  EXPECT_GE(band.distance(), std::max(of_hypothesis, of_reference));
  EXPECT_LE(band.distance(), of_hypothesis + of_reference);
}

TEST(EditBand, IsTheDistanceOfShortTexts) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const Words hypothesis = random_words(rng, 24), reference = random_words(rng, 24);
    const EditBand band(hypothesis, reference);
    EXPECT_EQ(band.distance(), full_distance(hypothesis, reference));
    expect_cheapest(band, reference);
  }
}

// A changed text costs what it costs when it is given whole, and so does a change of that.
TEST(EditBand, Changes) {
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    const Words hypothesis = random_words(rng, 90), reference = random_words(rng, 90);
    EditBand band(hypothesis, reference);
    Words changed = hypothesis;
    for (int change = 0; change < 3; ++change) {
      const size_t first = rng.below(hypothesis.size() + 1);
      Words words = random_words(rng, hypothesis.size() - first);
      std::ranges::copy(words, changed.begin() + static_cast<int64_t>(first));
      const EditBand whole(changed, reference);
      EXPECT_EQ(band.distance_with(static_cast<int64_t>(first), words), whole.distance());
      band.change(static_cast<int64_t>(first), words);
      EXPECT_EQ(band.distance(), whole.distance());
      EXPECT_EQ(band.alignment().places, whole.alignment().places);
      expect_cheapest(band, reference);
    }
  }
}

// Words that stand 25 places further on are found, and 26 places further on they are not.
TEST(EditBand, LooksNearTheDiagonal) {
  for (const uint32_t away : {25U, 26U}) {
    const Words hypothesis = joined(range(1000, 1000 + away), range(0, 100 - away));
    const Words reference = joined(range(0, 100 - away), range(2000, 2000 + away));
    EXPECT_EQ(EditBand(hypothesis, reference).distance(), away == 25 ? 50 : 100);
  }
}

// The band is wider if the lengths differ so much that its rows would not touch.
TEST(EditBand, TextsOfVeryDifferentLengths) {
  EXPECT_EQ(EditBand(Words{}, range(0, 500)).distance(), 500);
  EXPECT_EQ(EditBand(range(0, 500), Words{}).distance(), 500);
  EXPECT_EQ(EditBand(Words{125, 375}, range(0, 500)).distance(), 498);
  EXPECT_EQ(EditBand(Words{0, 499}, range(0, 500)).distance(), 500) << "150 words away at most";
  EXPECT_EQ(EditBand(range(0, 500), Words{0, 499}).distance(), 498);
  EXPECT_THAT(EditBand(Words{7, 8}, Words{9, 7, 8}).alignment().places, ElementsAre(-1, 0, 1));
}

}  // namespace
}  // namespace fovea::metrics::ter_test
