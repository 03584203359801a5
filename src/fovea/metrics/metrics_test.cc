#include <gmock/gmock.h>

#include <cmath>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/bootstrap.h"
#include "fovea/metrics/chrf.h"
#include "fovea/metrics/tokenize.h"
#include "fovea/metrics/unicode.h"

namespace fovea::metrics::metrics_test {
namespace {

using testing::ElementsAre;
using Texts = std::vector<std::string>;

// The tokens of a line, in UTF-8.
Texts tokens(const char* tokenizer, const char* line) {
  const std::u32string tokenised = find_tokenizer(tokenizer).tokenize(decode_utf8(line));
  Texts out;
  for (const std::u32string_view word : split_words(tokenised)) {
    std::string text;
    for (const char32_t c : word) {
      if (c < 0x80) text += static_cast<char>(c);
      if (c >= 0x80 && c < 0x800) text += {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
      if (c >= 0x800)
        text += {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)),
                 static_cast<char>(0x80 | (c & 63))};
    }
    out.push_back(text);
  }
  return out;
}

TEST(Tokenize, MtevalSplitsStopsUnlessBetweenDigits) {
  EXPECT_THAT(tokens("13a", "Hello, world."), ElementsAre("Hello", ",", "world", "."));
  EXPECT_THAT(tokens("13a", "3.14 and 1,000."), ElementsAre("3.14", "and", "1,000", "."));
  EXPECT_THAT(tokens("13a", "dog's co-op 5-ply"), ElementsAre("dog's", "co-op", "5", "-", "ply"));
  EXPECT_THAT(tokens("13a", "&quot;a&quot; &lt;b&gt; x&amp;y"),
              ElementsAre("\"", "a", "\"", "<", "b", ">", "x", "&", "y"));
  EXPECT_THAT(tokens("13a", "(a/b) „zitiert“"), ElementsAre("(", "a", "/", "b", ")", "„zitiert“"));
  EXPECT_THAT(tokens("13a", "a<skipped>b"), ElementsAre("ab"));
}

TEST(Tokenize, OthersByTheirNames) {
  EXPECT_THAT(tokens("none", "Hello, world."), ElementsAre("Hello,", "world."));
  EXPECT_THAT(tokens("char", "a bß"), ElementsAre("a", "b", "ß"));
  EXPECT_THAT(tokens("zh", "我爱Fovea 3.0。"), ElementsAre("我", "爱", "Fovea", "3.0", "。"));
  EXPECT_THAT(tokens("intl", "„Zitat“ 1.5 €5"), ElementsAre("„", "Zitat", "“", "1.5", "€", "5"));
  try {
    find_tokenizer("13b");
    FAIL() << "13b is no tokenizer";
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "--tokenize: got '13b'; expected one of 13a, none, char, zh, intl; did you mean '13a'?");
  }
}

TEST(Unicode, LowersAsPythonDoes) {
  EXPECT_EQ(lower_case(U"ÄÖ ΣΑΣ İ"), U"äö σας i\u0307");
  EXPECT_EQ(strip(U"\u3000 a b\u00a0\x1c"), U"a b");
}

TEST(Bleu, ByHand) {
  // 1-grams 5 of 6, 2-grams 3 of 5, 3-grams 1 of 4, 4-grams 0 of 3, which "exp" takes for a half.
  const Texts hypothesis = {"the cat sat on the mat"}, reference = {"the cat is on the mat"};
  const BleuStats stats = Bleu().segment(hypothesis[0], reference);
  EXPECT_THAT(stats.correct, ElementsAre(5, 3, 1, 0));
  EXPECT_THAT(stats.total, ElementsAre(6, 5, 4, 3));
  const BleuScore score = Bleu().score(stats);
  EXPECT_DOUBLE_EQ(score.score, 100 * std::pow(5. / 6 * 3 / 5 * 1 / 4 * 0.5 / 3, 0.25));
  EXPECT_EQ(score.verbose(), "83.3/60.0/25.0/16.7 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)");
  EXPECT_EQ(Bleu().signature(1), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
}

TEST(Bleu, ClipsCountsAndTakesTheClosestLength) {
  // The classic: seven times "the" against references that have it twice and once, of 7 and 8 words.
  const Texts references = {"the cat is on the mat now", "there is a cat on the mat now"};
  const BleuStats stats = Bleu().segment("the the the the the the the", references);
  EXPECT_EQ(stats.correct[0], 2);
  EXPECT_EQ(stats.reference_length, 7);
  const Texts tie = {"a b c d", "a b"};
  EXPECT_EQ(Bleu().segment("a b c", tie).reference_length, 2);  // as near: the shorter one
}

TEST(Bleu, ShortTextIsPenalised) {
  const Texts reference = {"a b c d e f g h"};
  const BleuScore score = Bleu().score(Bleu().segment("a b c d", reference));
  EXPECT_DOUBLE_EQ(score.brevity_penalty, std::exp(-1.0));
  EXPECT_DOUBLE_EQ(score.score, 100 * std::exp(-1.0));
}

TEST(Bleu, EdgesGiveZeroNotNan) {
  const Texts empty = {""}, word = {"a"};
  EXPECT_EQ(Bleu().score(Bleu().segment("", word)).score, 0);
  EXPECT_EQ(Bleu().score(Bleu().segment("a", empty)).score, 0);
  EXPECT_EQ(Bleu().score(Bleu().segment("", empty)).score, 0);
  EXPECT_EQ(Bleu().score(Bleu().segment("a", word)).score, 0);  // no 2-grams at all
  EXPECT_DOUBLE_EQ(Bleu({.effective_order = true}).score(Bleu({.effective_order = true}).segment("a", word)).score,
                   100);
}

TEST(Bleu, StatisticsOfSegmentsAdd) {
  const Texts hypotheses = {"a b c d e", "x y z"}, references = {"a b c d f", "x y w"};
  BleuStats sum = Bleu().segment(hypotheses[0], std::span(references).first(1));
  sum += Bleu().segment(hypotheses[1], std::span(references).last(1));
  EXPECT_EQ(corpus_bleu(hypotheses, references).score, Bleu().score(sum).score);
  EXPECT_THROW(corpus_bleu(hypotheses, std::span(references).first(1)), Error);
}

TEST(Bleu, MultiBleuAsMosesPrintsIt) {
  // 4 of 5, 3 of 4, 2 of 3, 1 of 2; five words against six.
  const Texts reference = {"the small cat sleeps here ."};
  const BleuScore score = multi_bleu(multi_bleu_segment("the small cat sleeps .", reference));
  EXPECT_DOUBLE_EQ(score.score, 100 * std::exp(1 - 6. / 5) * std::pow(5. / 5 * 3 / 4 * 2 / 3 * 1 / 2, 0.25));
  EXPECT_EQ(multi_bleu_line(score), "BLEU = 57.89, 100.0/75.0/66.7/50.0 (BP=0.819, ratio=0.833, hyp_len=5, ref_len=6)");
  EXPECT_THAT(multi_bleu_line(score, 4), testing::StartsWith("BLEU = 57.8930, "));
  EXPECT_EQ(multi_bleu(multi_bleu_segment("the cat", reference)).score, 0);  // nothing smoothed
  const Texts no_words = {""};
  EXPECT_EQ(multi_bleu_line(multi_bleu(multi_bleu_segment("", no_words))),
            "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)");
  const Texts upper = {"A B C D"};
  EXPECT_DOUBLE_EQ(multi_bleu(multi_bleu_segment("a b c d", upper, {.lowercase = true})).score, 100);
}

// "x-y-z" has one match, as it takes the y; "- a" and "b-" have none.
TEST(Bleu, MultiBleuSplitsCompounds) {
  const MultiBleuOptions split{.compound_split = true};
  const Texts apart = {"x y-z - a b- ü ö"};
  const BleuStats stats = multi_bleu_segment("x-y-z - a b- ü-ö", apart, split);
  EXPECT_EQ(stats.hypothesis_length, 9);  // with two signs of a split
  EXPECT_EQ(stats.correct[0], 7);
  EXPECT_EQ(multi_bleu_segment("x-y-z - a b- ü-ö", apart).correct[0], 3);
  EXPECT_EQ(multi_bleu_signature(split, 1), "nrefs:1|case:mixed|tok:none|split:compounds|smooth:none");
}

TEST(Chrf, ByHand) {
  // Characters 2 of 3, pairs 1 of 2, the triple 0 of 1; longer orders exist on neither side.
  const Texts reference = {"a b d"};
  const Chrf chrf;
  EXPECT_DOUBLE_EQ(chrf.score(chrf.segment("abc", reference)), 100 * (2. / 3 + 1. / 2 + 0) / 3);
  EXPECT_EQ(chrf.name(), "chrF2");
  EXPECT_EQ(chrf.signature(2), "nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0");
  EXPECT_EQ(Chrf({.word_order = 2}).name(), "chrF2++");
}

TEST(Chrf, RecallCountsFourTimesPrecision) {
  // One character of two found: precision 1, recall 1/2 on the only order both have.
  const Texts reference = {"ab"};
  EXPECT_DOUBLE_EQ(Chrf().score(Chrf().segment("a", reference)), 100 * 5 * 1 * 0.5 / (4 * 1 + 0.5));
}

TEST(Chrf, TakesTheBestReferenceAndSplitsMarks) {
  const Texts references = {"zzz", "abc"}, marked = {"(hi), \"you"};
  EXPECT_DOUBLE_EQ(Chrf().score(Chrf().segment("abc", references)), 100);
  const ChrfStats stats = Chrf({.word_order = 2}).segment("(hi), \"you", marked);
  EXPECT_EQ(stats.orders[6].reference, 4);  // "(hi)" "," "\"" "you": one mark per word, the last one first
}

TEST(Chrf, EdgesGiveZeroNotNan) {
  const Texts empty = {""}, word = {"a"};
  EXPECT_EQ(Chrf().score(Chrf().segment("", word)), 0);
  EXPECT_EQ(Chrf().score(Chrf().segment("a", empty)), 0);
  EXPECT_EQ(Chrf().score(Chrf().segment("b", word)), 0);
  EXPECT_EQ(Chrf().score({}), 0);
}

TEST(Bootstrap, DrawsNumpysNumbers) {
  // numpy.random.default_rng(12345).choice(10, size=12) and default_rng(7).choice(1000, size=8), NumPy 2.
  NumpyRandom seed12345(12345), seed7(7);
  std::vector<uint32_t> small, large;
  for (int i = 0; i < 12; ++i) small.push_back(seed12345.below(10));
  for (int i = 0; i < 8; ++i) large.push_back(seed7.below(1000));
  EXPECT_THAT(small, ElementsAre(6, 2, 7, 3, 2, 7, 6, 6, 9, 3, 8, 3));
  EXPECT_THAT(large, ElementsAre(944, 625, 684, 897, 578, 775, 833, 225));
}

TEST(Bootstrap, IntervalOfEqualScoresIsNarrow) {
  const Interval same =
      interval_of(resampled_scores({.segments = 10, .samples = 100}, [](const auto&) { return 42.0; }));
  EXPECT_DOUBLE_EQ(same.mean, 42);
  EXPECT_EQ(same.half_width, 0);
  const Interval wide =
      interval_of(resampled_scores({.segments = 100, .samples = 400}, [](const std::vector<uint32_t>& drawn) {
        double sum = 0;
        for (const uint32_t i : drawn) sum += i;
        return sum / static_cast<double>(drawn.size());
      }));
  // The mean of 0..99 has the standard error 28.87 / 10; 95% of a normal distribution lie within 1.96 of it. The two
  // quantiles of 400 draws are sure to about a tenth.
  EXPECT_NEAR(wide.mean, 49.5, 0.6);
  EXPECT_NEAR(wide.half_width, 1.96 * 2.887, 0.8);
}

// The sizes 2 0 0 2 have the mean 1: two of them are more than 0.5 above it, none is more than 1 above it.
TEST(Bootstrap, ComparisonByHand) {
  const std::vector<double> system = {5, 4, 4, 6}, baseline = {3, 4, 4, 8}, equal = system;
  const Comparison small = compare(0.5, system, baseline);
  EXPECT_EQ(small.difference, 0.5);
  EXPECT_EQ(small.low, -2);
  EXPECT_EQ(small.high, 2);
  EXPECT_DOUBLE_EQ(small.p, 3. / 5);
  EXPECT_DOUBLE_EQ(compare(-0.5, system, baseline).p, 3. / 5);
  EXPECT_DOUBLE_EQ(compare(1, system, baseline).p, 1. / 5);
  EXPECT_EQ(compare(0, system, equal).p, 1);
}

}  // namespace
}  // namespace fovea::metrics::metrics_test
