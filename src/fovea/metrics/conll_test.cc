#include "fovea/metrics/conll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::metrics::conll_test {
namespace {

std::vector<std::string> labels(const std::string& text) { return split_words(text); }

// The numbers are counted by hand: gold has PER, LOC, LOC, ORG; found has PER, a LOC too long, ORG with another type.
TEST(ConllScore, PrintsConllevalsReport) {
  ConllScore score;
  score.add(labels("B-PER I-PER O B-LOC O"), labels("B-PER I-PER O B-LOC I-LOC"));
  score.add(labels("B-LOC B-ORG O"), labels("B-LOC B-PER O"));
  EXPECT_EQ(score.report(),
            "processed 8 tokens with 4 phrases; found: 4 phrases; correct: 2.\n"
            "accuracy:  75.00%; precision:  50.00%; recall:  50.00%; FB1:  50.00\n"
            "              LOC: precision:  50.00%; recall:  50.00%; FB1:  50.00  2\n"
            "              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  0\n"
            "              PER: precision:  50.00%; recall: 100.00%; FB1:  66.67  2\n");
  EXPECT_DOUBLE_EQ(score.total().f1(), 0.5);
  EXPECT_EQ(score.words().gold, 0);
}

TEST(ConllScore, NamesAndWordsApart) {
  ConllScore score;
  score.add(labels("B-PER PUNCT ADP O"), labels("B-PER PUNCT PUNCT O"));
  EXPECT_DOUBLE_EQ(score.chunks().f1(), 1);
  EXPECT_DOUBLE_EQ(score.words().f1(), 0.5);
  EXPECT_DOUBLE_EQ(score.total().f1(), 2 * 2 / 6.0);
  EXPECT_DOUBLE_EQ(score.accuracy(), 0.75);
}

TEST(ConllScore, NothingScoresZero) {
  const ConllScore score;
  EXPECT_DOUBLE_EQ(score.total().f1(), 0);
  EXPECT_DOUBLE_EQ(score.accuracy(), 0);
  ConllScore wrong;
  EXPECT_EQ(message_of([&] { wrong.add(labels("O O"), labels("O")); }),
            "got 1 labels for a sentence of 2 words; expected one a word");
}

}  // namespace
}  // namespace fovea::metrics::conll_test
