#include "fovea/metrics/find_notation.h"

#include <gmock/gmock.h>

#include "fovea/base/choices.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"

namespace fovea::metrics::find_notation_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Sentences between bars.
std::vector<std::vector<std::string>> sentences_of(const std::string& text) {
  std::vector<std::vector<std::string>> sentences;
  for (const std::string& sentence : split(text, '|')) sentences.push_back(split_words(sentence));
  return sentences;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// "iob2 B-TYPE"
std::string shown_notation(const FoundNotation& found) {
  const std::string dialect(choice_at(kLabelDialectNames, static_cast<size_t>(found.notation.dialect)));
  return found.notation.form.marks_chunks() ? cat(dialect, " ", print_label_form(found.notation.form)) : dialect;
}
FoundNotation find_in(const std::string& text) { return find_notation(sentences_of(text)); }
std::string notation(const std::string& text) { return shown_notation(find_in(text)); }

TEST(FindNotation, KnowsDialects) {
  EXPECT_EQ(notation("O I-PER B-PER | I-PER I-PER O"), "iob1 B-TYPE");
  EXPECT_EQ(notation("O B-PER I-PER O | B-PER B-PER"), "iob2 B-TYPE");
  EXPECT_EQ(notation("O I-PER E-PER I-PER O | I-PER I-PER"), "ioe1 B-TYPE");
  EXPECT_EQ(notation("O I-PER E-PER E-PER O | I-PER E-PER"), "ioe2 B-TYPE");
  EXPECT_EQ(notation("O I-PER I-PER O | I-PER"), "io B-TYPE");
  EXPECT_EQ(notation("O B-PER E-PER"), "iobes B-TYPE");
  EXPECT_EQ(notation("S-PER O"), "iobes B-TYPE");
  EXPECT_EQ(notation("O O | U-PER"), "bilou B-TYPE");
  EXPECT_EQ(notation("B-PER I-PER I-PER S-PER O"), "bios B-TYPE");
  EXPECT_EQ(notation("B-PER I-PER E-PER B-PER B-PER E-PER O"), "bieo B-TYPE");
  EXPECT_EQ(notation("B-PER M-PER E-PER S-PER O"), "bmes B-TYPE");
  EXPECT_EQ(notation("B-PER M-PER E-PER W-PER O"), "bmewo B-TYPE");
  EXPECT_EQ(notation("B-PER I-PER E-PER U-PER O"), "bieou B-TYPE");
  EXPECT_EQ(notation("B-PER I-PER E-PER W-PER O"), "biewo B-TYPE");
  EXPECT_EQ(notation("B-NP I-NP B-VP"), "iob2 B-TYPE") << "without O";
  EXPECT_EQ(notation("NNP VB"), "words");
  EXPECT_EQ(notation(""), "words");
}

TEST(FindNotation, KnowsForms) {
  EXPECT_EQ(notation("O B_PER I_PER | B_LOC O"), "iob2 B_TYPE");
  EXPECT_EQ(notation("O B/PER I/PER | B/LOC O"), "iob2 B/TYPE");
  EXPECT_EQ(notation("O PER-B PER-I | LOC-B O"), "iob2 TYPE-B");
  EXPECT_EQ(notation("O x-y_B x-y_E | LOC_S O"), "iobes TYPE_B");
  EXPECT_EQ(notation("o b-per i-per | b-loc o"), "iob2 b-TYPE");
  EXPECT_EQ(notation("O b-per i-per | b-loc O"), "iob2 b-TYPE O");
  EXPECT_EQ(notation("O B I | B B O"), "iob2 B");
  EXPECT_EQ(notation("o b i | b b o"), "iob2 b");
  EXPECT_EQ(notation("O I I B | I O"), "iob1 B");
  EXPECT_EQ(notation("O B I L | U O"), "bilou B");
  EXPECT_EQ(notation("B M E S | B E S S"), "bmes B") << "words of a text without blanks";
  EXPECT_EQ(notation("B I I B | B I B"), "iob2 B");
  EXPECT_EQ(notation("O B- I- | B- O"), "iob2 B-TYPE") << "empty types";
  EXPECT_EQ(notation("B-geo-political I-geo-political O"), "iob2 B-TYPE");
}

TEST(FindNotation, LeavesPartsOfSpeechAlone) {
  EXPECT_EQ(notation("N V B I O | S N M E"), "words") << "single letters, N and V among them";
  EXPECT_EQ(notation("n v b i o | s n m e"), "words");
  EXPECT_EQ(notation("S V O | S V"), "words") << "subject, verb, object";
  EXPECT_EQ(notation("N-ACC V-PST S-GEN | I-INF B-ADV N-NOM"), "words");
  EXPECT_EQ(notation("NP-SBJ VP S-TPC"), "words");
  EXPECT_EQ(notation("NOUN_M NOUN_F VERB PRON_I PRON_E PRON_I VERB"), "words");
  EXPECT_EQ(notation("NN VB IN B I"), "words");
  const std::vector<std::string> letters = {"B", "I", "O", "E", "M", "S"};
  Rng rng(1);
  std::vector<std::vector<std::string>> drawn(200);
  for (auto& sentence : drawn) {
    for (int word = 0; word < 8; ++word) sentence.push_back(letters[rng.below(letters.size())]);
  }
  const FoundNotation found = find_notation(drawn);
  EXPECT_EQ(shown_notation(found), "words") << "letters in any order";
  EXPECT_THAT(found.lookalikes.names, ElementsAre("B", "E", "I", "M", "S"));
}

TEST(FindNotation, ChunksBesideWords) {
  EXPECT_EQ(notation("B-PER I-PER PUNCT O | I-LOC SCONJ B-LOC"), "iob2 B-TYPE");
  EXPECT_EQ(notation("O B I PUNCT O | B I SCONJ TO O"), "iob2 B");
  EXPECT_EQ(notation("I-PER O PUNCT"), "io B-TYPE");
  EXPECT_EQ(notation("O N V | B-PER I-PER N V B"), "iob2 B-TYPE");
}

TEST(FindNotation, AFewStraysChangeNothing) {
  const std::string names = repeated("B-PER I-PER O B-LOC O | ", 1000);
  for (const char* stray : {"O I-LOC O", "I-", "B-PER E-PER O", "S-PER", "U-PER O", "M-PER", "B-PER L-PER"}) {
    const FoundNotation found = find_in(names + stray);
    EXPECT_EQ(shown_notation(found), "iob2 B-TYPE") << stray;
    EXPECT_EQ(found.chunks, 2001);
    EXPECT_EQ(found.other_chunks.count, 1) << stray;
    EXPECT_EQ(found.other_chunks.sentence, 1000U);
    EXPECT_THAT(found.lookalikes.names, IsEmpty());
  }
  const FoundNotation found = find_in(names + "O B-PER E-PER");
  EXPECT_EQ(found.other_chunks.word, 2U);
  EXPECT_THAT(found.other_chunks.names, ElementsAre("E-PER"));
  for (const char* stray : {"B_PER", "PER-B", "b-PER", "B", "o", "0", "X-PER", "BPER", "B:PER", "MM_O"}) {
    const FoundNotation beside = find_in(names + stray);
    EXPECT_EQ(shown_notation(beside), "iob2 B-TYPE") << stray;
    EXPECT_EQ(beside.other_chunks.count, 0);
    EXPECT_EQ(beside.lookalikes.count, 1) << stray;
    EXPECT_THAT(beside.lookalikes.names, ElementsAre(stray));
  }
  EXPECT_EQ(notation(repeated("S-PER B-PER I-PER E-PER O | ", 100) + "O U-PER | I-PER"), "iobes B-TYPE");
  EXPECT_EQ(notation(repeated("I-PER I-PER O I-LOC | ", 100) + "I-PER B-PER | B-PER O | S-PER"), "iob1 B-TYPE");
  EXPECT_EQ(notation(repeated("B I O | ", 100) + "O I | N"), "iob2 B");
}

TEST(FindNotation, OtherMarksOutsideAreNamed) {
  const FoundNotation found = find_in("_ B-PER I-PER _ _ | B-LOC _");
  EXPECT_EQ(shown_notation(found), "iob2 B-TYPE");
  EXPECT_EQ(found.lookalikes.count, 4);
  EXPECT_THAT(found.lookalikes.names, ElementsAre("_"));
  EXPECT_THAT(find_in("O B-PER , I-LOC").lookalikes.names, IsEmpty());
}

TEST(FindNotation, KnownPartsAreKept) {
  const auto sentences = sentences_of("O I-PER I-PER | I-PER B-PER B_LOC");
  const FoundNotation as_words = find_notation(sentences, {.dialect = LabelDialect::kWords});
  EXPECT_EQ(shown_notation(as_words), "words");
  EXPECT_THAT(as_words.lookalikes.names, IsEmpty()) << "they are meant to be words";
  const FoundNotation given = find_notation(sentences, {.dialect = LabelDialect::kIobes});
  EXPECT_EQ(shown_notation(given), "iobes B-TYPE");
  EXPECT_EQ(given.other_chunks.count, 0) << "another dialect was asked for";
  EXPECT_THAT(given.lookalikes.names, ElementsAre("B_LOC"));
  EXPECT_EQ(shown_notation(find_notation(sentences, {.form = parse_label_form("B_TYPE", "")})), "iob2 B_TYPE");
}

TEST(FindNotation, OtherFilesAreReadInTheModelsFormOrTheirOwn) {
  const auto read = [](const std::string& text, const LabelForm& own) {
    const auto sentences = sentences_of(text);
    return print_label_form(form_to_read(sentences, own));
  };
  EXPECT_EQ(read("O B_PER I_PER", {}), "B_TYPE");
  EXPECT_EQ(read("O B_PER I_PER B-PER", {}), "B-TYPE");
  EXPECT_EQ(read("O NN", {}), "B-TYPE");
  EXPECT_FALSE(form_to_read(sentences_of("O B-PER"), kWordsAlone).marks_chunks());
}

}  // namespace
}  // namespace fovea::metrics::find_notation_test
