#include "fovea/metrics/chunks.h"

#include <gmock/gmock.h>

#include "fovea/base/choices.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::metrics::chunks_test {
namespace {

std::vector<std::string> labels_in(const std::string& text) { return split_words(text); }

// "PER 0-2" and so on.
std::string shown_chunks(const std::vector<Chunk>& chunks) {
  std::vector<std::string> parts;
  for (const Chunk& chunk : chunks)
    parts.push_back(cat(chunk.is_word ? "=" : "", chunk.type, " ", chunk.begin, "-", chunk.end));
  return join(parts, ", ");
}

LabelForm example_form(const std::string& example) { return parse_label_form(example, "form"); }

TEST(Chunks, OfAllDialects) {
  const auto read = [](const std::string& text) { return shown_chunks(chunks_of(labels_in(text))); };
  const std::string expected = "PER 1-3, PER 3-4, LOC 4-5, LOC 6-7";
  EXPECT_EQ(read("O I-PER I-PER B-PER I-LOC O I-LOC"), expected) << "IOB1";
  EXPECT_EQ(read("O B-PER I-PER B-PER B-LOC O B-LOC"), expected) << "IOB2";
  EXPECT_EQ(read("O I-PER E-PER I-PER I-LOC O I-LOC"), expected) << "IOE1";
  EXPECT_EQ(read("O I-PER E-PER E-PER E-LOC O E-LOC"), expected) << "IOE2";
  EXPECT_EQ(read("O B-PER E-PER S-PER S-LOC O S-LOC"), expected) << "IOBES";
  EXPECT_EQ(read("O B-PER L-PER U-PER U-LOC O U-LOC"), expected) << "BILOU";
  EXPECT_EQ(read("O B-PER M-PER M-PER E-PER W-LOC"), "PER 1-5, LOC 5-6") << "BMEWO";
  EXPECT_EQ(read("I-A E-A I-A B-A"), "A 0-2, A 2-3, A 3-4") << "I behind E begins, as conlleval has it";
  EXPECT_EQ(read("NNP NNP O I- I- B-"), "=NNP 0-1, =NNP 1-2,  3-5,  5-6") << "empty types";
  EXPECT_EQ(read("I-PER PUNCT I-PER"), "PER 0-1, =PUNCT 1-2, PER 2-3");
  EXPECT_EQ(read("B-geo-political I-geo-political I-geo"), "geo-political 0-2, geo 2-3");
  EXPECT_EQ(read(""), "");
}

TEST(Chunks, OfAllForms) {
  const auto read = [](const std::string& form, const std::string& text) {
    return shown_chunks(chunks_of(labels_in(text), example_form(form)));
  };
  EXPECT_EQ(read("B", "O B I I B O I"), " 1-4,  4-5,  6-7") << "conlleval gives them an empty type";
  EXPECT_EQ(read("b", "o b m e s"), " 1-4,  4-5");
  EXPECT_EQ(read("B_TYPE", "O B_PER I_PER B-PER"), "PER 1-3, =B-PER 3-4");
  EXPECT_EQ(read("TYPE-B", "O x-y-B x-y-I B-PER"), "x-y 1-3, =B-PER 3-4");
  EXPECT_EQ(read("b-TYPE", "o b-per i-per O B-per"), "per 1-3, =O 3-4, =B-per 4-5");
  EXPECT_EQ(read("b-TYPE O", "O b-per i-per"), "per 1-3");
  EXPECT_EQ(shown_chunks(chunks_of(labels_in("O B-PER"), kWordsAlone)), "=B-PER 1-2");
  EXPECT_EQ(shown_chunks(chunks_of(labels_in("O M-PER B-PER B-"), kFirstForm)), "=M-PER 1-2, PER 2-3, =B- 3-4");
}

TEST(Chunks, AreWrittenInAllDialects) {
  const std::string source = "O I-PER I-PER B-PER I-LOC I-LOC I-LOC PUNCT I-LOC";
  const std::vector<Chunk> chunks = chunks_of(labels_in(source));
  const auto written = [&](LabelDialect dialect) { return join(labels_of(chunks, 9, {dialect}), " "); };
  EXPECT_EQ(written(LabelDialect::kIob1), source);
  EXPECT_EQ(written(LabelDialect::kIob2), "O B-PER I-PER B-PER B-LOC I-LOC I-LOC PUNCT B-LOC");
  EXPECT_EQ(written(LabelDialect::kIobes), "O B-PER E-PER S-PER B-LOC I-LOC E-LOC PUNCT S-LOC");
  EXPECT_EQ(written(LabelDialect::kBilou), "O B-PER L-PER U-PER B-LOC I-LOC L-LOC PUNCT U-LOC");
  EXPECT_EQ(written(LabelDialect::kIoe1), "O I-PER E-PER I-PER I-LOC I-LOC I-LOC PUNCT I-LOC");
  EXPECT_EQ(written(LabelDialect::kIoe2), "O I-PER E-PER E-PER I-LOC I-LOC E-LOC PUNCT E-LOC");
  EXPECT_EQ(written(LabelDialect::kIo), "O I-PER I-PER I-PER I-LOC I-LOC I-LOC PUNCT I-LOC");
  EXPECT_EQ(written(LabelDialect::kBios), "O B-PER I-PER S-PER B-LOC I-LOC I-LOC PUNCT S-LOC");
  EXPECT_EQ(written(LabelDialect::kBieo), "O B-PER E-PER B-PER B-LOC I-LOC E-LOC PUNCT B-LOC");
  EXPECT_EQ(written(LabelDialect::kBmes), "O B-PER E-PER S-PER B-LOC M-LOC E-LOC PUNCT S-LOC");
  EXPECT_EQ(written(LabelDialect::kBmewo), "O B-PER E-PER W-PER B-LOC M-LOC E-LOC PUNCT W-LOC");
  EXPECT_EQ(written(LabelDialect::kBieou), "O B-PER E-PER U-PER B-LOC I-LOC E-LOC PUNCT U-LOC");
  EXPECT_EQ(written(LabelDialect::kBiewo), "O B-PER E-PER W-PER B-LOC I-LOC E-LOC PUNCT W-LOC");
  for (const LabelDialect dialect : chunk_dialects()) {
    if (dialect == LabelDialect::kIo) continue;  // it cannot tell chunks that touch
    for (const char* form : {"B-TYPE", "B_TYPE", "TYPE-B", "b-TYPE", "b-TYPE O"})
      EXPECT_EQ(chunks_of(labels_of(chunks, 9, {dialect, example_form(form)}), example_form(form)), chunks) << form;
  }
}

TEST(Chunks, DialectsHaveNames) {
  const auto name = [](LabelDialect dialect) { return choice_at(kLabelDialectNames, static_cast<size_t>(dialect)); };
  EXPECT_EQ(name(LabelDialect::kBilou), "bilou");
  EXPECT_EQ(name(LabelDialect::kIo), "io");
  EXPECT_EQ(name(LabelDialect::kBiewo), "biewo");
  EXPECT_EQ(name(LabelDialect::kWords), "words");
}

TEST(LabelForm, IsAnExample) {
  for (const char* example : {"B-TYPE", "B_TYPE", "B/TYPE", "TYPE-B", "b-TYPE", "TYPE.b", "B", "b", "b-TYPE O", "B o"})
    EXPECT_EQ(print_label_form(example_form(example)), example);
  EXPECT_EQ(print_label_form(example_form(" B-TYPE  O ")), "B-TYPE");
  for (const char* wrong : {"", "auto", "I-TYPE", "B-PER", "BTYPE", "B-TYPE X", "B O O", "BxTYPE", "TYPE"})
    EXPECT_THAT(message_of([&] { example_form(wrong); }),
                testing::StartsWith(cat("form: got '", wrong, "'; expected the")));
}

}  // namespace
}  // namespace fovea::metrics::chunks_test
