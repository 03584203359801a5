#include "fovea/text/sentences.h"

#include <gmock/gmock.h>

#include <array>

#include "fovea/base/strings.h"

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

TEST(Sentences, DatesAndOrdinalsEndNothing) {
  const auto split = [](const char* language, const char* text) { return SentenceSplitter(language).split(text); };
  for (const auto& [language, text] : {
           std::pair("de", "Am 3. Oktober 1990 war es kalt."),
           std::pair("de-AT", "Das 19. Jahrhundert begann."),
           std::pair("de", "Ludwig XIV. König von Frankreich."),
           std::pair("de", "(3. Auflage)"),
           std::pair("cs", "Dne 28. Října 1918 vznikla republika."),
           std::pair("da", "Den 5. Maj 1945 blev landet frit."),
           std::pair("nb", "Den 17. Mai er en festdag."),
           std::pair("fi", "Se tapahtui 6. Joulukuuta 1917."),
           std::pair("hu", "A 3. Fejezet itt van."),
           std::pair("pl", "Jan III. Sobieski był królem."),
           std::pair("sl", "Dne 25. Junija 1991 se je začelo."),
           std::pair("hr", "Dana 8. Listopada 1991."),
           std::pair("tr", "Bu 2. Dünya savaşıdır."),
           std::pair("lv", "Tas notika 18. Novembrī."),
       })
    EXPECT_THAT(split(language, text), ElementsAre(text)) << language;
  EXPECT_THAT(split("de", "Es war 1990. Danach kam 1991."), ElementsAre("Es war 1990.", "Danach kam 1991."));
  EXPECT_THAT(split("de", "Es kostet 1,5. Gut."), ElementsAre("Es kostet 1,5.", "Gut."));
  EXPECT_THAT(split("en", "It has 3. Then it has 4."), ElementsAre("It has 3.", "Then it has 4."));
}

// A word that has a capital only as the first one of a sentence tells that a letter or a number ends a sentence.
TEST(Sentences, NumbersAndLettersBeforeAFirstWordEndSentences) {
  for (const auto& [language, first, second] : std::vector<std::array<const char*, 3>>{
           {"de", "Sie wohnt in Haus 3.", "Er wohnt in Haus 14."},
           {"de", "Es sind 20.", "Danach kommen mehr."},
           {"de", "Das war Ludwig XIV.", "Er regierte lange."},
           {"de", "Das ist Plan B.", "Wir haben keinen anderen."},
           {"de", "Es kam am 3.", "„Das ist spät“, sagte sie."},
           {"en", "He took vitamin C.", "It helped."},
           {"en", "He lives in the U.S.", "The house is small."},
           {"fr", "C'est le plan B.", "Nous partons."},
           {"cs", "Bydlí v domě 3.", "Pak se přestěhoval."},
           {"da", "Hun bor i nummer 7.", "Det er et stort hus."},
           {"nb", "Hun bor i nummer 7.", "Det er et stort hus."},
           {"fi", "Hän asuu talossa 3.", "Se on suuri."},
           {"hu", "A ház száma 3.", "Ez nagy."},
           {"pl", "Mieszka pod numerem 5.", "To duży dom."},
           {"sl", "Stanuje v hiši 3.", "To je velika hiša."},
           {"hr", "Stanuje u kući 3.", "To je velika kuća."},
           {"sr", "Станује у кући 3.", "То је велика кућа."},
           {"tr", "Kapı numarası 3.", "Bu büyük bir ev."},
           {"lv", "Viņš dzīvo mājā 3.", "Tas ir liels."},
           {"lt", "Jis gyvena name 3.", "Tai didelis namas."},
           {"et", "Ta elab majas 3.", "See on suur."},
           {"is", "Hann býr í húsi 3.", "Það er stórt."},
           {"sk", "Býva v dome 3.", "To je veľký dom."},
       })
    EXPECT_THAT(SentenceSplitter(language).split(cat(first, " ", second)), ElementsAre(first, second)) << language;
}

TEST(Sentences, NumbersAndLettersThatStayWhole) {
  for (const auto& [language, text] : {
           std::pair("de", "Schritte: 1. Die Datei öffnen"),
           std::pair("de", "1. Die Datei öffnen"),
           std::pair("de", "B. Die Datei öffnen"),
           std::pair("de", "Wir haben 3. Anna hat 4 Äpfel"),  // ambiguous: a name, or a noun as in "3. Oktober"
           std::pair("en", "It is by J. A. Smith"),
           std::pair("en", "Choose: a. The file"),
           std::pair("en", "Use a key, e.g. The key"),
           std::pair("en", "Also known as a.k.a. The Rock"),
           std::pair("fr", "C'est J. Le Goff"),
       })
    EXPECT_THAT(SentenceSplitter(language).split(text), ElementsAre(text)) << language;
}

TEST(Sentences, InitialsRanksAndMonthsEndNothing) {
  const auto split = [](const char* language, const char* text) { return SentenceSplitter(language).split(text); };
  for (const auto& [language, text] : {
           std::pair("en", "It is by J. S. Bach and George W. Bush."),
           std::pair("en", "The U.S. Army met Gen. Lee and Lt. Col. Smith on Jan. 5 with Rev. King."),
           std::pair("de", "Herr Dipl.-Ing. Meier und Hrn. Prof. Dr. Weiß trafen E. T. A. Hoffmann."),
           std::pair("fr", "Voici Mme. Dupont et le gén. Leclerc avec J.-P. Sartre."),
           std::pair("es", "El Sr. García y la Dra. López llegaron."),
           std::pair("it", "Il sig. Rossi e il dott. Bianchi."),
           std::pair("nl", "Dhr. Jansen en prof. De Vries."),
           std::pair("ru", "Это А. С. Пушкин и проф. Иванов."),
           std::pair("el", "Ο κ. Παπαδόπουλος ήρθε."),
           std::pair("cs", "Přišel MUDr. Novák a Ing. Svoboda."),
           std::pair("xx", "It is J. S. Bach."),
       })
    EXPECT_THAT(split(language, text), ElementsAre(text)) << language;
  EXPECT_THAT(split("en", "He did it all. That is all. Go. No."),
              ElementsAre("He did it all.", "That is all.", "Go.", "No."));
}

TEST(Sentences, BlanksOfAnyKindStandBetween) {
  SentenceSplitter english("en");
  EXPECT_THAT(english.split("One here.\u00a0Two there.\u3000\u2009Three. \u00a0"),
              ElementsAre("One here.", "Two there.", "Three."));
  EXPECT_THAT(english.split("\u00a0\u3000"), IsEmpty());
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
