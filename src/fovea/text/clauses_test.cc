#include "fovea/text/clauses.h"

#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/text/clause_command.h"

namespace fovea::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> split_english(std::string_view text, int64_t level) {
  return clauses(text, clause_starts(text, ClauseDictionary::english()), level);
}

TEST(Clauses, SignalsOfEachLevelAddBoundaries) {
  const std::string text = "He came, and she who won went to Rome to sing.";
  EXPECT_THAT(split_english(text, 1), ElementsAre("He came, ", "and she who won went to Rome to sing."));
  EXPECT_THAT(split_english(text, 2), ElementsAre("He came, ", "and she who won went to Rome to sing."));
  EXPECT_THAT(split_english(text, 3), ElementsAre("He came, ", "and she ", "who won went to Rome to sing."));
  EXPECT_THAT(split_english(text, 5), ElementsAre("He came, ", "and she ", "who won went ", "to Rome ", "to sing."));
}

TEST(Clauses, PunctuationEndsAClauseWithWhatClosesIt) {
  EXPECT_THAT(split_english("\"Go!\" (Now.) He went?!", 1), ElementsAre("\"Go!\" ", "(Now.) ", "He went?!"));
  EXPECT_THAT(split_english("Mr. Lee paid 3.5 or 1,000 at 10:30.", 1),
              ElementsAre("Mr. Lee paid 3.5 or 1,000 at 10:30."));
  EXPECT_THAT(split_english("well-known, don't", 1), ElementsAre("well-known, ", "don't"));
  EXPECT_THAT(split_english("他来了，但是她没来。", 1), ElementsAre("他来了，", "但是她没来。"));
}

TEST(Clauses, JoinedAreTheText) {
  for (const std::string text :
       {"", " ", " a , b ", ",,,", "and and and", "a\xc3\xa4, \xff b", "。，x", "(", "to", ". to ."}) {
    std::vector<size_t> places;
    for (const ClauseStart& start : clause_starts(text, ClauseDictionary::english())) places.push_back(start.at);
    EXPECT_TRUE(std::ranges::is_sorted(places));
    size_t before = 0;
    for (int64_t level = 1; level <= kClauseLevels; ++level) {
      const std::vector<std::string> parts = split_english(text, level);
      EXPECT_EQ(join(parts, ""), text);
      EXPECT_GE(parts.size(), before);  // the levels are nested
      before = parts.size();
    }
  }
  std::string words;
  for (int i = 0; i < 10000; ++i) words += "word ";
  EXPECT_THAT(split_english(words, 6), ElementsAre(words));
}

TEST(Clauses, TagsDecide) {
  const ClauseDictionary& english = ClauseDictionary::english();
  const std::vector<std::string> words = {"the", "fact", "that", "that", "singing", "ended"};
  const auto levels = [&](const std::vector<std::string>& tags) {
    std::vector<int64_t> result;
    for (const ClauseStart& start : clause_starts(words, tags, english))
      result.push_back(start.level * 10 + static_cast<int64_t>(start.at));
    return result;
  };
  EXPECT_THAT(levels({"DT", "NN", "IN", "DT", "VBG", "VBD"}), ElementsAre(32, 64));
  EXPECT_THAT(levels({"DT", "NN", "IN", "DT", "NN", "VBD"}), ElementsAre(32));
  EXPECT_THAT(levels({}), ElementsAre(32, 33));
}

TEST(Clauses, DictionaryErrorsNameTheLine) {
  const auto refusal = [](const std::string& bytes) {
    return message_of([&] { ClauseDictionary::parse(bytes, "d.txt"); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("'d.txt' has no signal words"));
  EXPECT_THAT(refusal("# only\n\n"), HasSubstr("has no signal words"));
  EXPECT_THAT(refusal("conjunction and"), HasSubstr("line 1: got 1 column; expected a kind, words and perhaps tags"));
  EXPECT_THAT(refusal("conjunction\tand\nrelativ\twho\n"),
              HasSubstr("line 2: got the kind 'relativ'; expected one of"));
  EXPECT_THAT(refusal("relativ\twho"), HasSubstr("did you mean 'relative'?"));
  EXPECT_THAT(refusal("relative\t \tWP"), HasSubstr("line 1: got 0 words; expected 1 to 16"));
  EXPECT_THAT(refusal("participle\t*"), HasSubstr("'*' stands for any word with certain tags"));
  EXPECT_THAT(refusal("relative\twh\xff"), HasSubstr("line 1: is not UTF-8"));
  EXPECT_THAT(refusal("relative\twho\t\t"), HasSubstr("got 4 columns"));
  EXPECT_EQ(ClauseDictionary::parse("relative\tqui\r\n", "d").bytes(), "relative\tqui\r\n");
}

TEST(Clauses, OtherLanguagesByTheirDictionary) {
  const ClauseDictionary chinese = ClauseDictionary::parse("punctuation\t，\nconjunction\t但是\n", "zh");
  const std::string text = "他来但是她，走";
  EXPECT_THAT(clauses(text, clause_starts(text, chinese), 2), ElementsAre("他来", "但是她，", "走"));
}

struct Columns {
  TestFolder folder;
  ClauseOptions options;
  explicit Columns(const std::string& text) {
    write_file(folder / "in", text);
    options.input = folder / "in";
    options.output = folder / "out";
  }
  std::string run() const {
    run_clauses(options);
    return read_file(options.output);
  }
  std::string refusal() const {
    return message_of([&] { run_clauses(options); });
  }
};

TEST(ClauseCommand, PrintsALinePerLineAndLevel) {
  Columns text("He came, and left.\n\nyes\tno\n");
  text.options.level = 2;
  EXPECT_EQ(text.run(), "He came, \tand left.\n\nyes no\n");
  text.options.level = 0;
  EXPECT_THAT(split(text.run(), '\n'), testing::SizeIs(3 * kClauseLevels + 1));
}

TEST(ClauseCommand, FlagsSignalWords) {
  Columns text("He came,and left.\n\nno\n");
  text.options.flags = true;
  EXPECT_EQ(text.run(), "He came <c1> , <c2> and left <c1> .\n\nno\n");
  text.options.level = 1;
  EXPECT_EQ(text.run(), "He came <c1> ,and left <c1> .\n\nno\n");
  text.options.label = true;
  EXPECT_THAT(text.refusal(), HasSubstr("--flags: it reads text"));
}

TEST(ClauseCommand, LabelsWordsAndLetsCorrectionsWin) {
  Columns text("He PRP x\ncame VBD x\n, , x\nthat WDT x\n\nto TO x\n");
  text.options.label = true;
  EXPECT_EQ(text.run(), "He PRP x O\ncame VBD x O\n, , x PUNCT\nthat WDT x PRON\n\nto TO x TO\n\n");
  write_file(text.folder / "fix", "# fixes\nThat * SCONJ\ncame VBD PART\ncame VB TO\n");
  text.options.corrections = text.folder / "fix";
  EXPECT_EQ(text.run(), "He PRP x O\ncame VBD x PART\n, , x PUNCT\nthat WDT x SCONJ\n\nto TO x TO\n\n");
}

TEST(ClauseCommand, SplitsColumnsByTags) {
  Columns text("Who WP\nis VBZ\nsinging VBG\n\n\nhe PRP\n");
  text.options.tag_column = 2;
  text.options.level = 6;
  EXPECT_EQ(text.run(), "Who is \tsinging\nhe\n");
  // Tags in small letters are tags if the dictionary has one of them.
  Columns own("who wp\nruns vbz\n");
  write_file(own.folder / "words", "relative\twho\twp\n");
  own.options.dictionary = own.folder / "words";
  own.options.tag_column = 2;
  own.options.level = 3;
  EXPECT_EQ(own.run(), "who runs\n");
}

TEST(ClauseCommand, RefusesBadInputInOneLine) {
  Columns ragged("a NN x\nb NN\n");
  ragged.options.label = true;
  EXPECT_THAT(ragged.refusal(), HasSubstr("line 2: got 2 columns; expected 3 as in the lines before"));
  ragged.options.tag_column = 4;
  EXPECT_THAT(ragged.refusal(), HasSubstr("line 1: got 3 columns; expected at least 4"));
  Columns plain("A man in a hat\n");
  plain.options.tag_column = 2;
  EXPECT_THAT(plain.refusal(),
              HasSubstr("got 'man' in column 2 of the word 'A', and no other word has a part-of-speech "
                        "tag there; expected a word and its tag per line; for plain text leave out"));
  Columns longer("A man in a hat .\nTwo men\n");
  longer.options.tag_column = 2;
  EXPECT_THAT(longer.refusal(), HasSubstr("line 2: got 2 columns; expected 6 as in the lines before; for plain text"));
  Columns labels("a NN\n");
  labels.options.label = true;
  write_file(labels.folder / "fix", "a NN NOUN\n");
  labels.options.corrections = labels.folder / "fix";
  EXPECT_THAT(labels.refusal(),
              HasSubstr("line 1: got the label 'NOUN'; expected one of PUNCT, SCONJ, PRON, ADP, TO, PART, O"));
  write_file(labels.folder / "fix", "a NN\n");
  EXPECT_THAT(labels.refusal(), HasSubstr("line 1: got 2 columns; expected three"));
  labels.options.label = false;
  EXPECT_THAT(labels.refusal(), HasSubstr("--corrections: they are of labels"));
}

}  // namespace
}  // namespace fovea::text
