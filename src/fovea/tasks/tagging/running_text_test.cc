#include "fovea/tasks/tagging/running_text.h"

#include <gmock/gmock.h>

#include "fovea/base/strings.h"

namespace fovea::tagging::running_text_test {
namespace {

using testing::ElementsAre;

TEST(RunningText, Words) {
  EXPECT_THAT(words_of_text("\"Hello,\" she said (to U.S. men)..."),
              ElementsAre("\"", "Hello", ",", "\"", "she", "said", "(", "to", "U.S.", "men", ")", ".", ".", "."));
  EXPECT_THAT(words_of_text("  don't half-life 3.5 \u00bfqu\u00e9? --"),
              ElementsAre("don't", "half-life", "3.5", "\u00bf", "qu\u00e9", "?", "-", "-"));
  EXPECT_THAT(words_of_text("a\u00a0b\u3000c"), ElementsAre("a", "b", "c")) << "white space of any kind";
  EXPECT_TRUE(words_of_text(" ").empty());
}

TEST(RunningText, CharactersThatStandAloneAreWords) {
  EXPECT_THAT(words_of_text("\u7684\u7532\u4e01\u3002"), ElementsAre("\u7684", "\u7532", "\u4e01", "\u3002"));
  EXPECT_THAT(words_of_text("\u4ed6\u4e70\u4e86iPhone 15\u3001\u4e09\u4e2a(\u7ea2)\u3002"),
              ElementsAre("\u4ed6", "\u4e70", "\u4e86", "iPhone", "15", "\u3001", "\u4e09", "\u4e2a", "(", "\u7ea2",
                          ")", "\u3002"));
  EXPECT_THAT(words_of_text("\u65e5\u672c\u306e\u30ab"), ElementsAre("\u65e5", "\u672c", "\u306e", "\u30ab"));
  EXPECT_THAT(words_of_text("iPhone\uff0ciPad\u3001A\u00b7B"),
              ElementsAre("iPhone", "\uff0c", "iPad", "\u3001", "A\u00b7B"));
  EXPECT_THAT(words_of_text("\U00020000x"), ElementsAre("\U00020000", "x"));
  EXPECT_THAT(words_of_text("\ud55c\uad6d\uc5b4 \uc740"), ElementsAre("\ud55c\uad6d\uc5b4", "\uc740"))
      << "Korean has blanks";
}

TEST(RunningText, WordsThatNothingTellsApart) {
  std::string thai;
  for (int i = 0; i < 30; ++i) thai += "\u0e01";
  EXPECT_TRUE(runs_words_together(thai));
  EXPECT_FALSE(runs_words_together(thai.substr(0, 15)));
  EXPECT_FALSE(runs_words_together("antidisestablishmentarianism"));
}

// Whether lines that are read as columns look like running text.
bool looks_like_text(const std::string& text) {
  text::ColumnLines reader("");
  for (const std::string& line : split(text, '\n')) reader.add(line);
  reader.end();
  const std::vector<text::ColumnLine> lines = reader.take();
  return running_text(lines) != nullptr;
}

TEST(RunningText, IsToldFromColumns) {
  EXPECT_TRUE(looks_like_text("Anna lives in Paris."));
  EXPECT_TRUE(looks_like_text("Anna lives in Paris .\nBert has left .\n\nWhat did he say ?"));
  EXPECT_TRUE(looks_like_text("Anna lives in Paris.\nBert has left Rome."));
  EXPECT_TRUE(looks_like_text("Anna lives in Paris\nBert has left"));
  EXPECT_TRUE(looks_like_text("\u4ed6\u4eec\u6765\u4e86\u3002\n\u5979\u8d70\u4e86\u3002"));
  for (const char* columns : {"Anna NNP I-NP B-PER\nlives VBZ I-VP O", "Anna\nlives\n.",
                              "lives VBZ live nsubj\nin IN in prep", "Anna\tnnp\tanna\tper", "ama W\nto\tT\nAmax N",
                              "the det\ncat noun", "\u7684 O\n\u3002 O", "\u4e2d\u56fd\n\u3002", ""})
    EXPECT_FALSE(looks_like_text(columns)) << columns;
}

}  // namespace
}  // namespace fovea::tagging::running_text_test
