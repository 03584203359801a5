#include "fovea/serve/split_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fovea::serve::split_text_test {
namespace {

using Texts = std::vector<std::string>;

TEST(SplitText, GapsAndSentencesAreTheText) {
  text::SentenceSplitter splitter("en");
  for (const std::string text : {"", "One.", "  One.  Two!\n\nThree?\r\n", "\n\n", "e.g. this. That.", "no end\n x",
                                 "A\tb. C\xC2\xA0"
                                 "d. \xE2\x80\xA8 E."})
    for (const Splitting where : {Splitting::kLines, Splitting::kSentences, Splitting::kBoth}) {
      const SplitText split = split_text(text, where, splitter);
      ASSERT_EQ(split.gaps.size(), split.sentences.size() + 1);
      if (where != Splitting::kSentences) {
        EXPECT_EQ(join_text(split, split.sentences), text);
      }
    }
}

TEST(SplitText, SentencesAndLines) {
  text::SentenceSplitter splitter("en");
  const std::string text = "First one. Second\none. \n Third.";
  EXPECT_EQ(split_text(text, Splitting::kBoth, splitter).sentences, (Texts{"First one.", "Second", "one.", "Third."}));
  EXPECT_EQ(split_text(text, Splitting::kLines, splitter).sentences, (Texts{"First one. Second", "one.", "Third."}));
  EXPECT_EQ(split_text(text, Splitting::kNever, splitter).sentences, (Texts{"First one. Second one.   Third."}));
}

TEST(SplitText, BlanksOfAnyKindAreGaps) {
  text::SentenceSplitter splitter("en");
  const std::string text = "\u00a0You can insert a new row.\u00a0The file cannot be opened.\u3000";
  const SplitText split = split_text(text, Splitting::kBoth, splitter);
  EXPECT_EQ(split.sentences, (Texts{"You can insert a new row.", "The file cannot be opened."}));
  EXPECT_EQ(join_text(split, {"A.", "B."}), "\u00a0A.\u00a0B.\u3000");
  EXPECT_EQ(join_text(split_text("\u00a0One\u2009\n", Splitting::kLines, splitter), {"Eins"}), "\u00a0Eins\u2009\n");
  EXPECT_EQ(split_text(" \u00a0\n", Splitting::kBoth, splitter).sentences, Texts{});
}

TEST(SplitText, OtherSentencesKeepTheGaps) {
  text::SentenceSplitter splitter("en");
  const SplitText split = split_text(" One.  Two.\n", Splitting::kBoth, splitter);
  EXPECT_EQ(join_text(split, {"Eins.", "Zwei."}), " Eins.  Zwei.\n");
}

}  // namespace
}  // namespace fovea::serve::split_text_test
