#include "fovea/text/language_check.h"

#include <gmock/gmock.h>

#include "fovea/base/strings.h"
#include "fovea/text/clause_dictionary.h"

namespace fovea::text::language_check_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string doubt_of(const std::string& text) {
  LanguageCheck check;
  for (const std::string& line : split(text, '\n')) {
    const auto tokens = ClauseDictionary::english().tokens(line);
    check.add(words_of(tokens, line));
  }
  return check.doubt();
}

TEST(LanguageCheck, NamesOtherLanguages) {
  EXPECT_EQ(doubt_of("Der Hund und die Katze schlafen."),
            "looks like German: 50% of its words are among 'der', 'die', 'und' and other function words");
  EXPECT_THAT(doubt_of("Als er kam, sagte sie, dass sie gehen mussten."), HasSubstr("like German"));
  EXPECT_THAT(doubt_of("Quand il est venu, elle a dit qu'ils devaient partir et que la maison \u00e9tait vide."),
              HasSubstr("like French"));
  EXPECT_THAT(doubt_of("Cuando lleg\u00f3, ella dijo que los ni\u00f1os se iban a la casa."),
              HasSubstr("like Spanish"));
  EXPECT_THAT(doubt_of("Toen hij kwam, zei ze dat het huis niet te koop was en dat hij naar de stad ging."),
              HasSubstr("like Dutch"));
  EXPECT_THAT(doubt_of("Quando \u00e8 arrivato, lei ha detto che non si poteva andare con il treno della sera."),
              HasSubstr("like Italian"));
  EXPECT_THAT(
      doubt_of("Kiedy przyszed\u0142, powiedzia\u0142a, \u017ce nie ma go w domu i \u017ce to si\u0119 zdarza."),
      HasSubstr("like Polish"));
  EXPECT_THAT(doubt_of("Ketika dia datang, anak itu tidak ada di rumah dan pergi ke pasar dengan ibu."),
              HasSubstr("like Indonesian or Malay"));
}

TEST(LanguageCheck, LettersOfOtherScripts) {
  EXPECT_EQ(doubt_of("\u041a\u043e\u0433\u0434\u0430 \u043e\u043d \u043f\u0440\u0438\u0448\u0435\u043b."),
            "does not look like English: 100% of its letters are not in the English alphabet");
  EXPECT_THAT(doubt_of("\u4ed6\u6765\u4e86\uff0c\u4f46\u662f\u5979\u6ca1\u6765\u3002"),
              HasSubstr("not look like English"));
  EXPECT_THAT(doubt_of("\u03b1"), IsEmpty()) << "one letter is a formula";
}

TEST(LanguageCheck, NoDoubtOfEnglishOfAnyRegister) {
  for (const char* text : {
           "",
           "1 2 3",
           "...",
           "Hello!",
           "La Paz, El Salvador",
           "La Liga de Los Angeles",
           "Beethoven",
           "The cat sat on the mat, and der Hund und die Katze slept.",
           "He read Der Spiegel und Die Zeit, and so on, while his wife was away.",
           "Soccer - Liverpool 2 Everton 1\nTennis - Graf beat Huber 6-3 6-2\n1. Sergi Bruguera ( Spain ) 45",
           "van der Westhuizen ( South Africa ) beat de la Pena ( Argentina ) 6-4 7-6",
           "lol ok c u l8r im at da mall",
           "int main() { return 0; } void foo(int a, int b);",
           "Thou art more lovely and more temperate: rough winds do shake the darling buds of May",
           "1 cup sugar\n2 tsp vanilla extract\n3 eggs, beaten\nchopped parsley",
           "SALE! BUY NOW! 50% OFF EVERYTHING",
           "Brer Rabbit he say, en den dey all went ter de house, en de Fox he was in dar wid um, en it was dark",
           "\u03b1 and \u03b2 denote the angles of the triangle \u0391\u0392\u0393.",
           "the caf\u00e9 na\u00efvely served cr\u00e8me br\u00fbl\u00e9e",
           "Lorem, ipsum: names of files",
           "apple banana cherry date elderberry fig grape",
       })
    EXPECT_THAT(doubt_of(text), IsEmpty()) << text;
}

}  // namespace
}  // namespace fovea::text::language_check_test
