#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/plural_forms.h"
#include "fovea/text/test_readers.h"

namespace fovea::text::catalogue_readers_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHeader =
    "msgid \"\"\nmsgstr \"\"\n\"Language: de\\n\"\n\"Content-Type: text/plain; charset=UTF-8\\n\"\n\n";

TEST_F(ReadersTest, PoMessagesContextsPluralsAndEscapes) {
  const std::string path = file("de.po", std::string(kHeader) +
                                             "#. a remark\n#: file.c:12\nmsgid \"Open\"\nmsgstr \"Öffnen\"\n\n"
                                             "msgctxt \"menu\"\nmsgid \"File\"\nmsgstr \"Datei\"\n\n"
                                             "msgid \"one \\\"%d\\\" file\"\nmsgid_plural \"%d \"\n\"files\"\n"
                                             "msgstr[0] \"eine Datei\"\nmsgstr[1] \"%d Dateien\"\n\n"
                                             "msgid \"a\\tb\\nc\\\\\"\nmsgstr \"d\\te\"\n");
  const Bitext bitext = read_po(path);
  EXPECT_EQ(bitext.source_lang, "en");
  EXPECT_EQ(bitext.target_lang, "de");
  EXPECT_THAT(bitext.pairs,
              ElementsAre(is_pair("Open", "Öffnen"), is_pair("File", "Datei"), is_pair("one \"%d\" file", "eine Datei"),
                          is_pair("%d files", "%d Dateien"), is_pair("a\tb\nc\\", "d\te")));
}

std::string plurals_in(const std::string& rule, int forms) {
  std::string text =
      cat("msgid \"\"\nmsgstr \"\"\n\"Language: xx\\n\"\n",
          rule.empty() ? "" : cat("\"Plural-Forms: ", rule, "\\n\"\n"), "\nmsgid \"one\"\nmsgid_plural \"many\"\n");
  for (int form = 0; form < forms; ++form) text += cat("msgstr[", form, "] \"form ", form, "\"\n");
  return text;
}

// The forms of each language's rule, as its catalogues have it.
TEST_F(ReadersTest, PoPluralsAreTheFormsOfOneAndOfMost) {
  struct Case {
    std::string rule;
    int forms;
    std::string one, many;
  };
  for (const Case& c : {
           Case{"nplurals=2; plural=n != 1;", 2, "form 0", "form 1"},
           Case{"nplurals=2; plural=(n > 1);", 2, "form 0", "form 1"},
           Case{"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)",
                3, "form 0", "form 2"},
           Case{"nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;", 3, "form 0", "form 2"},
           Case{"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);", 3, "form 0", "form 1"},
           Case{"nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);", 4, "form 1",
                "form 0"},
           Case{"nplurals=3; plural=(n == 1) ? 0 : n != 0 && n % 1000000 == 0 ? 1 : 2;", 3, "form 0", "form 2"},
           Case{"nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;", 6,
                "form 1", "form 4"},
           Case{"nplurals=2; plural=!(n == 1);", 2, "form 0", "form 1"},
           Case{"", 2, "form 0", "form 1"},
           Case{"nplurals=INTEGER; plural=EXPRESSION;", 2, "form 0", "form 1"},
       })
    EXPECT_THAT(read_po(file("a.po", plurals_in(c.rule, c.forms))).pairs,
                ElementsAre(is_pair("one", c.one), is_pair("many", c.many)))
        << c.rule;
  for (const std::string rule : {"nplurals=1; plural=0;", ""})
    EXPECT_THAT(read_po(file("ja.po", plurals_in(rule, 1))).pairs, ElementsAre(is_pair("many", "form 0"))) << rule;
}

TEST(PluralForms, RulesThatAreNone) {
  for (const std::string& rule :
       {std::string("plural=n=="), std::string("plural=(n"), std::string("plural=n ? 1"), std::string("plural=m"),
        std::string("plural=99"), std::string("nplurals=2"), std::string("plural=n!"),
        "plural=" + std::string(1500, '('), "plural=" + std::string(1500, '!') + "n)"}) {
    const bool is_read = parse_plural_forms(rule).has_value();
    EXPECT_FALSE(is_read) << rule;
  }
  EXPECT_TRUE(parse_plural_forms("plural=n/0%0 - n + n*2 <= 3 >= 2;"));
}

TEST_F(ReadersTest, PoLanguageOfThePathIfTheHeaderNamesNone) {
  const auto language = [&](const std::string& name, const std::string& header) {
    return read_po(file(name, header + "msgid \"a\"\nmsgstr \"b\"\n")).target_lang;
  };
  EXPECT_EQ(language("messages.de.po", ""), "de");
  EXPECT_EQ(language("fr.po", ""), "fr");
  EXPECT_EQ(language("app.pt_BR.po", ""), "pt_BR");
  EXPECT_EQ(language("app.sr@latin.po", ""), "sr@latin");
  EXPECT_EQ(language("plugin-de_DE.po", ""), "de_DE");
  for (const std::string name :
       {"zh_Hans", "zh-Hant", "sr_Latn", "zh_Hans_CN", "es_419", "ca_ES@valencia", "de_DE@euro"})
    EXPECT_EQ(language(name + ".po", ""), name);
  EXPECT_EQ(language("app-zh_Hans.po", ""), "zh_Hans");
  EXPECT_EQ(language("app-es_419.po", ""), "es_419");
  EXPECT_EQ(language("messages.fr.po", kHeader), "de") << "the header counts";
  std::filesystem::create_directories(std::filesystem::path(file("x", "")).parent_path() / "nl" / "LC_MESSAGES");
  EXPECT_EQ(language("nl/LC_MESSAGES/app.po", ""), "nl");
  for (const char* name : {"messages.po", "how-to.po", "log-in.po", "app.xx.po", "de_DE_x.po", "app.de_.po", ".po",
                           "zh_hans.po", "zh_Hansa.po", "de_DE@.po", "to-do.po", "es_41.po", "zh_CN_Hans.po"})
    EXPECT_EQ(language(name, ""), "") << name;
}

TEST_F(ReadersTest, PoSourceLanguageOfTheHeader) {
  const auto languages = [&](const std::string& fields) {
    const std::string header = "msgid \"\"\nmsgstr \"\"\n\"Language: de\\n\"\n" + fields;
    const Bitext bitext = read_po(file("a.po", header + "\nmsgid \"a\"\nmsgstr \"b\"\n"));
    EXPECT_EQ(bitext.source_by_custom, fields.empty());
    return bitext.source_lang + " " + bitext.target_lang;
  };
  EXPECT_EQ(languages(""), "en de");
  EXPECT_EQ(languages("\"X-Source-Language: fr_CA\\n\"\n"), "fr_CA de");
}

TEST_F(ReadersTest, PoEscapesAreThoseOfC) {
  const std::string path =
      file("de.po", std::string(kHeader) + R"(msgid "\a\b\f\n\r\t\v\\\"")"
                                           "\n"
                                           R"(msgstr "Men\303\274 jetzt \x41\xe4\xbb\xB6 \x041z \1013 \7q")"
                                           "\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("\a\b\f\n\r\t\v\\\"", "Menü jetzt A件 Az A3 \aq")));
}

TEST_F(ReadersTest, PoEscapesAreBytesOfItsCharacterSet) {
  const std::string path = file("de.po",
                                "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=ISO-8859-1\\n\"\n\n"
                                R"(msgid "nice")"
                                "\n"
                                R"(msgstr "sch\366n \xFC")"
                                "\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("nice", "schön ü")));
}

// The last byte of each of these letters is that of a backslash. An escape byte by byte escapes that too.
TEST_F(ReadersTest, PoEscapesAreNoHalvesOfCharacters) {
  for (const auto& [charset, letter, escaped, meaning] :
       {std::array{"Big5", "\xa5\x5c", R"(\245\\)", "功"}, std::array{"Shift_JIS", "\x95\x5c", R"(\x95\\)", "表"},
        std::array{"GBK", "\xd5\x5c", R"(\325\x5c)", "誠"}, std::array{"GB18030", "\xd5\x5c", R"(\325\134)", "誠"},
        std::array{"Big5-HKSCS", "\xb3\x5c", R"(\263\\)", "許"}}) {
    const std::string header = cat("msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=", charset, "\\n\"\n\n");
    const std::string text = cat("\"", letter, "n\\\"", letter, "\\\\\\t\"\n\"", letter, "\"\n");
    const std::string path =
        file("a.po", cat(header, "msgid \"raw\"\nmsgstr ", text, "\nmsgid \"escaped\"\nmsgstr \"", escaped, "n\"\n"));
    EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("raw", cat(meaning, "n\"", meaning, "\\\t", meaning)),
                                                 is_pair("escaped", cat(meaning, "n"))))
        << charset;
  }
  EXPECT_THAT(message_of([&] { read_po(file("b.po", "msgid \"\"\nmsgstr \"Content-Type: ; charset=x-klingon\"\n")); }),
              HasSubstr("b.po': got the character set 'x-klingon'; expected a known one"));
}

// msgcat writes an escape right behind the shift back to ASCII.
TEST_F(ReadersTest, PoEscapesFollowShiftsOfIso2022) {
  const std::string path = file("a.po",
                                "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=ISO-2022-JP\\n\"\n\n"
                                "msgid \"raw\"\nmsgstr \"\x1b$B$\"\x1b(B\\tb\"\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("raw", "あ\tb")));
}

TEST_F(ReadersTest, PoPluralFormsOutOfOrderAreAnError) {
  const std::string plural = "msgid \"cat\"\nmsgid_plural \"cats\"\n";
  EXPECT_THAT(message_of([&] { read_po(file("a.po", plural + "msgstr[1] \"Katzen\"\nmsgstr[0] \"Katze\"\n")); }),
              HasSubstr("a.po' line 3: got 'msgstr[1]'; expected 'msgstr[0]'; put the plural's forms in order"));
  EXPECT_THAT(message_of([&] { read_po(file("b.po", plural + "msgstr[0] \"Katze\"\nmsgstr[2] \"Katzen\"\n")); }),
              HasSubstr("b.po' line 4: got 'msgstr[2]'; expected 'msgstr[1]'"));
}

TEST_F(ReadersTest, PoLeavesOutWhatIsNotTranslated) {
  const std::string path = file("de.po", std::string(kHeader) +
                                             "#, fuzzy, c-format\n#| msgid \"Old\"\nmsgid \"New\"\nmsgstr \"Alt\"\n\n"
                                             "msgid \"Empty\"\nmsgstr \"\"\n\n"
                                             "msgid \"Kept\"\nmsgstr \"Behalten\"\n\n"
                                             "#~ msgid \"Gone\"\n#~ msgstr \"Weg\"\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("Kept", "Behalten")));
  EXPECT_EQ(read_po(path).unfinished, 1);
}

TEST_F(ReadersTest, PoOneFormForAllNumbers) {
  const std::string path = file("ja.po", "msgid \"one cat\"\nmsgid_plural \"%d cats\"\nmsgstr[0] \"猫 %d 匹\"\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("%d cats", "猫 %d 匹")));
}

TEST_F(ReadersTest, PoInAnotherCharacterSet) {
  const std::string path = file("de.po",
                                "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=ISO-8859-1\\n\"\n\nmsgid "
                                "\"nice\"\nmsgstr \"sch\xf6n\"\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("nice", "schön")));
  const std::string unknown = file(
      "xx.po", "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=klingon\\n\"\n\nmsgid \"nice\"\nmsgstr \"x\"\n");
  EXPECT_THAT(message_of([&] { read_po(unknown); }), AllOf(HasSubstr("xx.po"), HasSubstr("'klingon'")));
}

// The forms between the first and the last are for numbers that English does not tell apart.
TEST_F(ReadersTest, PoOfThreeFormsGivesTheFirstAndTheLast) {
  const std::string path = file("pl.po",
                                "msgid \"cat\"\nmsgid_plural \"cats\"\n"
                                "msgstr[0] \"kot\"\nmsgstr[1] \"koty\"\nmsgstr[2] \"kotów\"\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("cat", "kot"), is_pair("cats", "kotów")));
}

// A template names no character set.
TEST_F(ReadersTest, PoIsUtf8UnlessItSaysOtherwise) {
  for (const char* charset : {"CHARSET", "utf8", "UTF-8", "us-ascii"}) {
    const std::string path = file("a.po", cat("msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=", charset,
                                              "\\n\"\n\nmsgid \"a\"\nmsgstr \"ä\"\n"));
    EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("a", "ä"))) << charset;
  }
}

TEST_F(ReadersTest, PoMayBeginWithAMarkAndHaveDomains) {
  const std::string message = "msgid \"a\"\nmsgstr \"b\"\n";
  // "fuzzy" in a remark is not a flag.
  for (const std::string& before : {std::string(), std::string("domain \"x\"\n#. a fuzzy remark\n")})
    EXPECT_THAT(read_po(file("a.po", cat("\ufeff", before, message))).pairs, ElementsAre(is_pair("a", "b")));
}

TEST_F(ReadersTest, PoSaysTheLine) {
  EXPECT_THAT(message_of([&] { read_po(file("a.po", "msgid \"a\"\nhello\n")); }),
              AllOf(HasSubstr("a.po' line 2: got 'hello'"), HasSubstr("expected msgid")));
  EXPECT_THAT(message_of([&] { read_po(file("b.po", "msgid open\n")); }),
              AllOf(HasSubstr("line 1: got 'open'"), HasSubstr("quotes")));
  EXPECT_THAT(message_of([&] { read_po(file("c.po", "\"text\"\n")); }), HasSubstr("line 1"));
}

TEST_F(ReadersTest, FlagsOfAnObsoleteMessageAreItsOwn) {
  const std::string path = file("de.po", std::string(kHeader) +
                                             "\nmsgid \"Before\"\nmsgstr \"Vorher\"\n"
                                             "#, fuzzy\n#~ msgid \"Gone\"\n#~ msgstr \"Weg\"\n"
                                             "msgid \"Here\"\nmsgstr \"Hier\"\n");
  EXPECT_THAT(read_po(path).pairs, ElementsAre(is_pair("Before", "Vorher"), is_pair("Here", "Hier")));
}

}  // namespace
}  // namespace fovea::text::catalogue_readers_test
