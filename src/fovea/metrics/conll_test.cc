#include "fovea/metrics/conll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::metrics {
namespace {

std::vector<std::string> labels(const std::string& text) { return split_words(text); }

// "PER 0-2" and so on.
std::string shown(const std::vector<Chunk>& chunks) {
  std::vector<std::string> parts;
  for (const Chunk& chunk : chunks)
    parts.push_back(cat(chunk.is_word ? "=" : "", chunk.type, " ", chunk.begin, "-", chunk.end));
  return join(parts, ", ");
}

TEST(Chunks, OfAllDialects) {
  const auto read = [](const std::string& text) { return shown(chunks_of(labels(text))); };
  const std::string expected = "PER 1-3, PER 3-4, LOC 4-5, LOC 6-7";
  EXPECT_EQ(read("O I-PER I-PER B-PER I-LOC O I-LOC"), expected) << "IOB1";
  EXPECT_EQ(read("O B-PER I-PER B-PER B-LOC O B-LOC"), expected) << "IOB2";
  EXPECT_EQ(read("O B-PER E-PER S-PER S-LOC O S-LOC"), expected) << "IOBES";
  EXPECT_EQ(read("O B-PER L-PER U-PER U-LOC O U-LOC"), expected) << "BILOU";
  EXPECT_EQ(read("I-A E-A I-A B-A"), "A 0-2, A 2-3, A 3-4") << "I behind E begins, as conlleval has it";
  EXPECT_EQ(read("NNP NNP O I- B-"), "=NNP 0-1, =NNP 1-2, =I- 3-4, =B- 4-5") << "labels without a type are words";
  EXPECT_EQ(read("I-PER PUNCT I-PER"), "PER 0-1, =PUNCT 1-2, PER 2-3");
  EXPECT_EQ(read(""), "");
}

TEST(Chunks, AreWrittenInAllDialects) {
  const std::string source = "O I-PER I-PER B-PER I-LOC I-LOC I-LOC PUNCT I-LOC";
  const std::vector<Chunk> chunks = chunks_of(labels(source));
  const auto written = [&](LabelDialect dialect) { return join(labels_of(chunks, 9, dialect), " "); };
  EXPECT_EQ(written(LabelDialect::kIob1), source);
  EXPECT_EQ(written(LabelDialect::kIob2), "O B-PER I-PER B-PER B-LOC I-LOC I-LOC PUNCT B-LOC");
  EXPECT_EQ(written(LabelDialect::kIobes), "O B-PER E-PER S-PER B-LOC I-LOC E-LOC PUNCT S-LOC");
  EXPECT_EQ(written(LabelDialect::kBilou), "O B-PER L-PER U-PER B-LOC I-LOC L-LOC PUNCT U-LOC");
  for (const auto dialect : {LabelDialect::kIob1, LabelDialect::kIob2, LabelDialect::kIobes, LabelDialect::kBilou})
    EXPECT_EQ(chunks_of(labels_of(chunks, 9, dialect)), chunks);
}

TEST(Chunks, DialectIsFound) {
  const auto dialect = [](const std::vector<std::string>& sentences) {
    DialectFinder finder;
    for (const std::string& sentence : sentences) finder.add(labels(sentence));
    return finder.dialect();
  };
  EXPECT_EQ(dialect({"O I-PER", "B-PER O"}), LabelDialect::kIob1);
  EXPECT_EQ(dialect({"O B-PER I-PER O", "B-PER B-PER"}), LabelDialect::kIob2);
  EXPECT_EQ(dialect({"O B-PER E-PER"}), LabelDialect::kIobes);
  EXPECT_EQ(dialect({"S-PER O"}), LabelDialect::kIobes);
  EXPECT_EQ(dialect({"O O", "U-PER"}), LabelDialect::kBilou);
  EXPECT_EQ(dialect({"NNP VB"}), LabelDialect::kIob2);
}

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
}  // namespace fovea::metrics
