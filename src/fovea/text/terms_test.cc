#include "fovea/text/terms.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::text::terms_test {
namespace {

using Words = std::vector<std::string>;

std::vector<Words> found(const TermList& terms, std::string_view line) {
  std::vector<Words> all;
  for (const auto& place : terms.find(line)) {
    all.emplace_back();
    for (const size_t term : place) all.back().push_back(terms.terms()[term].target);
  }
  return all;
}

TEST(TermWords, AreRunsOfLettersAndSingleSigns) {
  EXPECT_EQ(term_words("A dog-house, isn't it?"), (Words{"A", "dog-house", ",", "isn", "'", "t", "it", "?"}));
  EXPECT_EQ(term_words(" - x- -y 3-4 "), (Words{"-", "x", "-", "-", "y", "3-4"}));
  EXPECT_EQ(term_words("Müller läuft"), (Words{"Müller", "läuft"}));
  EXPECT_EQ(term_words("的狗 dog"), (Words{"的", "狗", "dog"}));
  EXPECT_EQ(term_words(" \t\u00a0"), Words());
}

TEST(TermList, FindsTheLongestSourceOfWholeWords) {
  const TermList terms = TermList::from_text(
      "dog\tHund\nhot dog\tHotdog\nhot dog stand\tImbiss\ndog\tRüde\nstand\tStand\n\nof the\tdes\n", "t.tsv");
  EXPECT_EQ(found(terms, "a hot dog and a dog"), (std::vector<Words>{{"Hotdog"}, {"Hund", "Rüde"}}));
  EXPECT_EQ(found(terms, "the hot dog stand's stand"), (std::vector<Words>{{"Imbiss"}, {"Stand"}}));
  EXPECT_EQ(found(terms, "dogs , hotdog , hot-dog"), std::vector<Words>());
  EXPECT_EQ(found(terms, "dog"), (std::vector<Words>{{"Hund", "Rüde"}}));
  EXPECT_EQ(found(terms, ""), std::vector<Words>());
}

TEST(TermList, TheFirstWordAlsoCountsWithoutItsCapital) {
  const TermList terms = TermList::from_text("dog\tHund\nHans\tHans\nhot dog\tHotdog\nHot\tScharf\n", "t.tsv");
  EXPECT_EQ(found(terms, "Dog and Dog"), (std::vector<Words>{{"Hund"}}));
  EXPECT_EQ(found(terms, "\"Dog and Hans\""), (std::vector<Words>{{"Hund"}, {"Hans"}}));
  EXPECT_EQ(found(terms, "hans"), std::vector<Words>());
  EXPECT_EQ(found(terms, "Hot dog"), (std::vector<Words>{{"Hotdog"}}));
  EXPECT_EQ(found(terms, "Hot tea"), (std::vector<Words>{{"Scharf"}}));
}

TEST(TermList, ReadsLinesOfTwoColumns) {
  const TermList terms = TermList::from_text("\xef\xbb\xbf a b \t c \r\n\nx\ty", "t.tsv");
  ASSERT_EQ(terms.terms().size(), 2U);
  EXPECT_EQ(terms.terms()[0].source, "a b");
  EXPECT_EQ(terms.terms()[0].target, "c");
  EXPECT_EQ(terms.where(terms.terms()[1]), "t.tsv, line 3");
}

TEST(TermList, ABadLineIsNamedWithWhatWasExpected) {
  const auto message = [](std::string_view text) { return message_of([&] { TermList::from_text(text, "t.tsv"); }); };
  EXPECT_EQ(message("a\tb\nc d\n"), "t.tsv, line 2: got no tab; expected SOURCE<TAB>TARGET");
  EXPECT_EQ(message("a\tb\tc\n"), "t.tsv, line 1: got 2 tabs; expected SOURCE<TAB>TARGET");
  EXPECT_EQ(message("a\t \n"), "t.tsv, line 1: got a term without a target; expected words on both sides of the tab");
  EXPECT_EQ(message("\tb\n"), "t.tsv, line 1: got a term without a source; expected words on both sides of the tab");
  EXPECT_EQ(message("a\t\xff\n"), "t.tsv, line 1: is not UTF-8; convert the text, as with iconv -t UTF-8");
  EXPECT_EQ(message("\n\n"), "t.tsv: got no term; expected lines SOURCE<TAB>TARGET");
}

TEST(TermList, FindsTheLongestOfManySourcesWithOneBeginning) {
  std::string lines;
  for (int64_t i = 0; i < 500; ++i) lines += cat("hot dog ", i, "\tt", i, "\n");
  const TermList terms = TermList::from_text(lines + "hot\tHeiß\nhot dog 7 up\tu\n", "t.tsv");
  EXPECT_EQ(found(terms, "a hot dog 499 and hot dog 7 up, hot dog 500"),
            (std::vector<Words>{{"t499"}, {"u"}, {"Heiß"}}));
}

TEST(TermList, LimitsWordsAndAlternatives) {
  const auto message = [](const std::string& text) { return message_of([&] { TermList::from_text(text, "t.tsv"); }); };
  std::string source, lines;
  for (size_t i = 0; i < TermList::kMostWords; ++i) source += "a ";
  EXPECT_EQ(TermList::from_text(source + "\tx", "t.tsv").find(source).size(), 1U);
  EXPECT_EQ(message(source + "a\tx"), "t.tsv, line 1: got a source of 101 words; expected at most 100");
  for (size_t i = 0; i < TermList::kMostAlternatives; ++i) lines += cat("dog\tt", i, "\n");
  EXPECT_EQ(found(TermList::from_text(lines + "dog\tt0\n", "t.tsv"), "dog").front().size(), 100U);
  EXPECT_EQ(message(lines + "dog\tz\n"),
            "t.tsv, line 101: got more than 100 translations of one source; keep the best");
}

TEST(TermTexts, HaveCapitalsAndEndsOfWords) {
  EXPECT_EQ(with_capital("hund und"), "Hund und");
  EXPECT_EQ(with_capital("übung"), "Übung");
  EXPECT_EQ(with_capital("Hund"), "Hund");
  EXPECT_EQ(with_capital("3 x"), "3 x");
  EXPECT_EQ(with_capital(""), "");
  EXPECT_TRUE(begins_inside_word("e"));
  EXPECT_TRUE(begins_inside_word("\u0301"));
  EXPECT_FALSE(begins_inside_word(" e"));
  EXPECT_FALSE(begins_inside_word("狗"));
  EXPECT_FALSE(begins_inside_word(""));
  EXPECT_TRUE(ends_inside_word("Hund"));
  EXPECT_FALSE(ends_inside_word("Hund."));
}

TEST(Terms, OfASpreadsheet) {
  const TermList list = TermList::from_text("the \"old\" row\tx\n", "terms");
  EXPECT_EQ(list.terms()[0].source, "the \"old\" row");
  const TermList quoted = TermList::from_text("\"the \"\"old\"\" row\"\tdie Zeile\ncell\tZelle\n", "terms");
  EXPECT_EQ(quoted.terms()[0].source, "the \"old\" row");
  EXPECT_EQ(quoted.terms()[1].target, "Zelle");
  EXPECT_EQ(quoted.terms()[1].line, 2);
}

TEST(Terms, StandInLinesThatAreNotClean) {
  const TermList list = TermList::from_text("caf\u00e9 row\tx\n", "terms");
  EXPECT_EQ(list.find("The cafe\u0301\u00a0row and the caf\u00e9\u00ad row").size(), 2U);
}

}  // namespace
}  // namespace fovea::text::terms_test
