#include "fovea/text/sentences.h"

#include <gmock/gmock.h>

namespace fovea::text::sentences_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Sentences, SplitsAtFullStops) {
  SentenceSplitter english("en");
  EXPECT_THAT(english.split("Open the file. Then close it! Why? \"Because.\" End"),
              ElementsAre("Open the file.", "Then close it!", "Why?", "\"Because.\"", "End"));
  EXPECT_THAT(english.split("  One only.  "), ElementsAre("One only."));
  EXPECT_THAT(english.split(" "), IsEmpty());
  EXPECT_THAT(english.split(""), IsEmpty());
}

TEST(Sentences, AbbreviationsEndNothing) {
  SentenceSplitter english("en"), german("de"), french("fr"), american("en-US"), austrian("de_AT");
  EXPECT_THAT(english.split("Use a key, e.g. Enter. Go on."), ElementsAre("Use a key, e.g. Enter.", "Go on."));
  EXPECT_THAT(american.split("See Fig. A and so on. Next."), ElementsAre("See Fig. A and so on.", "Next."));
  EXPECT_THAT(german.split("Eine Taste, z. B. Enter, drücken. Weiter."),
              ElementsAre("Eine Taste, z. B. Enter, drücken.", "Weiter."));
  EXPECT_THAT(german.split("Das gilt u. a. Anfang Mai. Ende."), ElementsAre("Das gilt u. a. Anfang Mai.", "Ende."));
  EXPECT_THAT(austrian.split("Das gilt bzw. Anfang Mai. Ende."), ElementsAre("Das gilt bzw. Anfang Mai.", "Ende."));
  EXPECT_THAT(french.split("Une touche, p. ex. Entrée. Suite."), ElementsAre("Une touche, p. ex. Entrée.", "Suite."));
}

TEST(Sentences, NumbersStayWithWhatTheyNumber) {
  SentenceSplitter english("en");
  EXPECT_THAT(english.split("1. Open it. 2. Close it."), ElementsAre("1. Open it.", "2. Close it."));
  EXPECT_THAT(english.split("Version 7.4 is out. It is 3.5 MB."), ElementsAre("Version 7.4 is out.", "It is 3.5 MB."));
}

// Were the text before a break looked at again at each, this would take hours.
TEST(Sentences, TextsOfNoSentenceAreNoWork) {
  SentenceSplitter english("en"), german("de");
  for (const std::string part : {"1. ", "z. ", "Nr. ", "Nr. \n"}) {
    std::string text;
    for (int i = 0; i < 300'000; ++i) text += part;
    text += "end";
    EXPECT_THAT(german.split(text), ElementsAre(text)) << part;
  }
  EXPECT_THAT(english.split("12.\n\n\nOne."), ElementsAre("12.\n\n\nOne."));
}

TEST(Sentences, OtherScriptsAndUnknownLanguages) {
  SentenceSplitter chinese("zh-cn"), unknown("xx-yy"), odd("?!"), none("");
  EXPECT_THAT(chinese.split("打开文件。关闭文件！"), ElementsAre("打开文件。", "关闭文件！"));
  for (SentenceSplitter* splitter : {&unknown, &odd, &none})
    EXPECT_THAT(splitter->split("One here. Two there."), ElementsAre("One here.", "Two there."));
}

}  // namespace
}  // namespace fovea::text::sentences_test
