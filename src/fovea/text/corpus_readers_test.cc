#include "fovea/text/corpus_readers.h"

#include <gmock/gmock.h>

#include <string>
#include <string_view>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/text/test_readers.h"

namespace fovea::text::corpus_readers_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ReadersTest, TsvByColumn) {
  const std::string path = file("a.tsv", "1\tcat\tKatze\r\n2\tdog\tHund\textra\n");
  EXPECT_THAT(read_tsv(path, 2, 3).pairs, ElementsAre(is_pair("cat", "Katze"), is_pair("dog", "Hund")));
  // A line that is too short is an empty pair, to be dropped as such; where all are, the columns are wrong.
  EXPECT_THAT(read_tsv(path, 1, 4).pairs, ElementsAre(is_pair("", ""), is_pair("2", "extra")));
  EXPECT_THAT(message_of([&] { read_tsv(path, 1, 5); }),
              AllOf(HasSubstr("line 1: got 3 columns"), HasSubstr("at least 5")));
}

TEST_F(ReadersTest, TsvOfASpreadsheet) {
  EXPECT_THAT(
      read_tsv(file("q.tsv",
                    "Before\tVorher\n"
                    "\"He said \"\"good morning\"\" to us\"\t\"Er sagte \"\"guten Morgen\"\"\"\r\n"
                    "Open it\tOeffnen\n\"two\nlines\"\t\"zwei\nZeilen\"\n\"a\tb\"\tc\n"),
               1, 2)
          .pairs,
      ElementsAre(is_pair("Before", "Vorher"), is_pair("He said \"good morning\" to us", "Er sagte \"guten Morgen\""),
                  is_pair("Open it", "Oeffnen"), is_pair("two\nlines", "zwei\nZeilen"), is_pair("a\tb", "c")));
  EXPECT_THAT(read_tsv(file("all.tsv", "1\t\"cat\"\t\"Katze\"\n2\t\"dog\"\t\"Hund\"\n"), 2, 3).pairs,
              ElementsAre(is_pair("cat", "Katze"), is_pair("dog", "Hund")));
}

// Quotes of the text itself: none of these files is a spreadsheet's.
TEST_F(ReadersTest, TsvWithQuotesOfItsText) {
  EXPECT_THAT(read_tsv(file("a.tsv", "\"Yes.\"\t\"Ja.\"\nNo.\tNein.\n"), 1, 2).pairs,
              ElementsAre(is_pair("\"Yes.\"", "\"Ja.\""), is_pair("No.", "Nein.")));
  EXPECT_THAT(read_tsv(file("b.tsv", "\"A\" and \"B\"\tx\n\"\"\"C\"\"\"\ty\n"), 1, 2).pairs,
              ElementsAre(is_pair("\"A\" and \"B\"", "x"), is_pair("\"\"\"C\"\"\"", "y")));
  EXPECT_THAT(read_tsv(file("c.tsv", "\"Open\tx\nClose.\"\ty\n"), 1, 2).pairs,
              ElementsAre(is_pair("\"Open", "x"), is_pair("Close.\"", "y")));
  EXPECT_THAT(read_tsv(file("d.tsv", "a\tb\nx\t\"Open.\nClose.\"\ty\n"), 1, 2).pairs,
              ElementsAre(is_pair("a", "b"), is_pair("x", "\"Open."), is_pair("Close.\"", "y")));
  EXPECT_THAT(read_tsv(file("e.tsv", "\"Hi\"\"\tx\n"), 1, 2).pairs, ElementsAre(is_pair("\"Hi\"\"", "x")));
}

TEST_F(ReadersTest, AlignedFiles) {
  const std::string english = file("c.en", "a\nb\n"), german = file("c.de", "x\ny");
  const Bitext bitext = read_aligned(english, german);
  EXPECT_EQ(bitext.source_lang, "en");
  EXPECT_EQ(bitext.target_lang, "de");
  EXPECT_THAT(bitext.pairs, ElementsAre(is_pair("a", "x"), is_pair("b", "y")));
  EXPECT_EQ(read_aligned(file("s.txt", "a\n"), file("t.txt", "b\n")).source_lang, "");
  const Bitext regional = read_aligned(file("c.orig", "a\n"), file("c.pt-BR", "b\n"));
  EXPECT_EQ(regional.source_lang, "") << "'orig' is no language";
  EXPECT_EQ(regional.target_lang, "pt-BR");
  EXPECT_THAT(message_of([&] { read_aligned(english, file("short.de", "x\n")); }),
              AllOf(HasSubstr("has 2 lines"), HasSubstr("short.de' has 1;")));
  EXPECT_THAT(message_of([&] { read_aligned(file("empty.en", ""), german); }),
              AllOf(HasSubstr("has 0 lines"), HasSubstr("c.de' has 2;")));
}

constexpr const char* kMemory = R"(<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="en-US"/><body>
<tu><tuv xml:lang="de"><seg>Die <bpt i="1">&lt;b&gt;</bpt>rote<ept i="1">&lt;/b&gt;</ept> Katze</seg></tuv>
    <tuv xml:lang="en-US"><seg>The <hi>red</hi> cat &amp; dog</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>alone</seg></tuv></tu>
</body></tmx>)";

TEST_F(ReadersTest, Tmx) {
  const Bitext bitext = read_tmx(file("a.tmx", kMemory), {});
  EXPECT_EQ(bitext.source_lang, "en-us");
  EXPECT_EQ(bitext.target_lang, "de");
  EXPECT_THAT(bitext.pairs, ElementsAre(is_pair("The red cat & dog", "Die rote Katze")));
  EXPECT_THAT(read_tmx(folder_ / "a.tmx", {"de", "en"}).pairs,
              ElementsAre(is_pair("Die rote Katze", "The red cat & dog")));
}

// Version 1.1 has `lang` without a prefix; *all* is not a language.
TEST_F(ReadersTest, TmxOfOldVersionsAndOfAnySource) {
  const Bitext bitext =
      read_tmx(file("a.tmx",
                    "<tmx version='1.1'><header srclang='*all*'/><body><tu><tuv lang='en'><seg>a <it pos='begin'>x</it>"
                    "<![CDATA[<cat>]]></seg></tuv><tuv lang='de'><seg>eine Katze</seg></tuv></tu></body></tmx>"),
               {});
  EXPECT_EQ(bitext.source_lang, "en");
  EXPECT_EQ(bitext.target_lang, "de");
  EXPECT_THAT(bitext.pairs, ElementsAre(is_pair("a <cat>", "eine Katze")));
}

TEST_F(ReadersTest, CodeThatEndsALineIsABlank) {
  const std::string memory =
      file("br.tmx",
           "<tmx version='1.4'><header srclang='en'/><body><tu><tuv xml:lang='en'><seg>Press<ph>"
           "&lt;br/&gt;</ph>the <bpt i='1'>&lt;b&gt;</bpt>red<ept i='1'>&lt;/b&gt;</ept>dish "
           "key<ph type='lb'/>now</seg></tuv><tuv xml:lang='de'><seg>x</seg></tuv></tu></body></tmx>");
  EXPECT_THAT(read_tmx(memory, {}).pairs, ElementsAre(is_pair("Press the reddish key now", "x")));
  const std::string xliff =
      file("br.xlf",
           "<xliff><file source-language='en' target-language='de'><trans-unit><source>Press<x ctype='lb'/>the<ph "
           "equiv-text='&lt;br/&gt;'/>un<x/>broken</source><target>x</target></trans-unit></file></xliff>");
  EXPECT_THAT(read_xliff(xliff).pairs, ElementsAre(is_pair("Press the unbroken", "x")));
}

std::string memory_in(const std::string& encoding, const std::string& german) {
  return cat("<?xml version='1.0'", encoding.empty() ? "" : cat(" encoding=\"", encoding, "\""), "?>",
             "<tmx><header srclang='en'/><body><tu><tuv xml:lang='en'><seg>nice</seg></tuv><tuv xml:lang='de'><seg>",
             german, "</seg></tuv></tu></body></tmx>");
}

TEST_F(ReadersTest, TmxInAnyCharacterSet) {
  for (const auto& [encoding, german] :
       {std::pair("windows-1252", "sch\xf6n \x80"), std::pair("WINDOWS-1252", "sch\xf6n \x80"),
        std::pair("ISO-8859-15", "sch\xf6n \xa4"), std::pair("x-mac-roman", "sch\x9an \xdb"),
        std::pair("UTF-8", "schön €"), std::pair("", "schön €"), std::pair("utf-16", "schön €")})
    EXPECT_THAT(read_tmx(file("a.tmx", memory_in(encoding, german)), {}).pairs, ElementsAre(is_pair("nice", "schön €")))
        << encoding;
  EXPECT_THAT(read_tmx(file("a.tmx", memory_in("ISO-8859-1", "sch\xf6n")), {}).pairs,
              ElementsAre(is_pair("nice", "schön")));
  EXPECT_THAT(read_tmx(file("a.tmx", memory_in("shift_jis", "\x94\x4c")), {}).pairs,
              ElementsAre(is_pair("nice", "猫")));
  std::string wide = "\xff\xfe";
  for (const char c : memory_in("UTF-16", "sch\xf6n")) wide += c, wide += '\0';
  EXPECT_THAT(read_tmx(file("a.tmx", wide), {}).pairs, ElementsAre(is_pair("nice", "schön")));
  const std::string unknown = file("a.tmx", memory_in("x-Klingon", "a"));
  EXPECT_THAT(message_of([&] { read_tmx(unknown, {}); }),
              AllOf(HasSubstr("a.tmx' is declared to be in 'x-klingon'"), HasSubstr("iconv -f x-klingon -t UTF-8")));
  EXPECT_THAT(message_of([&] { read_xliff(unknown); }), HasSubstr("'x-klingon'"));
}

std::string times(int count, std::string_view text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST_F(ReadersTest, InlineElementsNestedToAnyDepth) {
  constexpr int kDepth = 300'000;
  const std::string deep = "a " + times(kDepth, "<g>") + "red" + times(kDepth, "</g>") + " <ph>code</ph>cat";
  const std::string memory =
      file("deep.tmx", cat("<tmx><body><tu><tuv xml:lang='en'><seg>", deep,
                           "</seg></tuv><tuv xml:lang='de'><seg>x</seg></tuv></tu></body></tmx>"));
  EXPECT_THAT(read_tmx(memory, {}).pairs, ElementsAre(is_pair("a red cat", "x")));
  const std::string xliff =
      file("deep.xlf", cat("<xliff><file source-language='en' target-language='de'><trans-unit><source>", deep,
                           "</source><target>x</target></trans-unit></file></xliff>"));
  EXPECT_THAT(read_xliff(xliff).pairs, ElementsAre(is_pair("a red cat", "x")));
}

TEST_F(ReadersTest, BlanksBetweenInlineElementsAreText) {
  const Bitext tmx = read_tmx(
      file("b.tmx",
           "<tmx version=\"1.4\"><header srclang=\"en\"/><body><tu>\n  <tuv xml:lang=\"en\"><seg><hi>Hello</hi> "
           "<hi>brave</hi> <bpt i=\"1\">b</bpt>new<ept i=\"1\">b</ept> world</seg></tuv>\n  "
           "<tuv xml:lang=\"de\"><seg>Hallo</seg></tuv></tu></body></tmx>"),
      {});
  EXPECT_THAT(tmx.pairs, ElementsAre(is_pair("Hello brave new world", "Hallo")));
  const Bitext xliff = read_xliff(
      file("c.xlf",
           "<xliff version=\"2.0\" srcLang=\"en\" trgLang=\"de\"><file><unit id=\"1\"><segment>\n <source><pc>Open"
           "</pc> <mrk>the file</mrk></source>\n <target>Öffnen</target>\n</segment></unit></file></xliff>"));
  EXPECT_THAT(xliff.pairs, ElementsAre(is_pair("Open the file", "Öffnen")));
}

TEST_F(ReadersTest, TmxTakesTheLanguageAskedForBeforeItsKin) {
  const std::string path =
      file("pt.tmx",
           "<tmx version=\"1.4\"><header/><body><tu><tuv xml:lang=\"en\"><seg>train</seg></tuv><tuv xml:lang=\"pt\">"
           "<seg>comboio</seg></tuv><tuv xml:lang=\"pt-BR\"><seg>trem</seg></tuv></tu></body></tmx>");
  EXPECT_THAT(read_tmx(path, {"en", "pt_BR"}).pairs, ElementsAre(is_pair("train", "trem")));
  EXPECT_THAT(read_tmx(path, {"en", "pt"}).pairs, ElementsAre(is_pair("train", "comboio")));
  EXPECT_THAT(read_tmx(path, {"en", "pt-AO"}).pairs, ElementsAre(is_pair("train", "comboio")));
}

TEST_F(ReadersTest, TmxDoesNotMixTheKinOfALanguage) {
  const auto unit = [](const std::string& number, const std::vector<std::string>& tags) {
    std::string text = cat("<tu><tuv xml:lang=\"en\"><seg>", number, "</seg></tuv>");
    for (const std::string& tag : tags) text += cat("<tuv xml:lang=\"", tag, "\"><seg>", tag, "</seg></tuv>");
    return text + "</tu>";
  };
  const std::string path = file("kin.tmx", cat("<tmx version=\"1.4\"><header/><body>", unit("1", {"pt-BR", "pt-PT"}),
                                               unit("2", {"pt-PT", "pt-BR"}), unit("3", {"pt-PT"}),
                                               unit("4", {"pt-BR"}), unit("5", {"pt-PT"}), "</body></tmx>"));
  testing::internal::CaptureStderr();
  EXPECT_THAT(read_tmx(path, {"en", "pt"}).pairs,
              ElementsAre(is_pair("1", "pt-PT"), is_pair("2", "pt-PT"), is_pair("3", "pt-PT"), is_pair("4", "pt-BR"),
                          is_pair("5", "pt-PT")));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("2 units have several texts in 'pt' (pt-pt, pt-br); taking the first of these languages that a "
                        "unit has; choose one with --languages"));
  EXPECT_THAT(read_tmx(path, {"en", "pt-br"}).pairs,
              ElementsAre(is_pair("1", "pt-BR"), is_pair("2", "pt-BR"), is_pair("4", "pt-BR")));
}

TEST_F(ReadersTest, TmxErrors) {
  const std::string path = file("a.tmx", kMemory);
  EXPECT_THAT(message_of([&] {
                read_tmx(path, {"en", "fr"});
              }),
              AllOf(HasSubstr("nothing in 'fr'"), HasSubstr("it has de, en-us")));
  EXPECT_THAT(message_of([&] { read_tmx(file("cut.tmx", std::string(kMemory).substr(0, 200)), {}); }),
              AllOf(HasSubstr("cut.tmx' line "), HasSubstr("not well-formed XML")));
  EXPECT_THAT(message_of([&] { read_tmx(file("other.tmx", "<html/>"), {}); }), HasSubstr("no <tmx><body>"));
  EXPECT_THAT(message_of([&] { read_tmx(file("empty.tmx", ""), {}); }), HasSubstr("not well-formed"));
}

// Gettext's catalogues as XLIFF: each form is a unit, and which of them count is as in a .po.
TEST_F(ReadersTest, PluralGroupsOfXliff) {
  const auto unit = [](const std::string& source, const std::string& target) {
    return cat("<trans-unit><source>", source, "</source><target>", target, "</target></trans-unit>");
  };
  const auto read = [&](const std::string& rule, const std::vector<std::string>& forms) {
    std::string text = "<xliff version='1.2'><file source-language='en' target-language='xx'><body>";
    if (!rule.empty())
      text += cat(
          "<trans-unit restype='x-gettext-domain-header'><source>h</source><target>Language: xx\nPlural-Forms: ", rule,
          "\n</target></trans-unit>");
    text += "<group restype='x-gettext-plurals'>";
    for (size_t i = 0; i < forms.size(); ++i) text += unit(i == 0 ? "one file" : "many files", forms[i]);
    return read_xliff(file("plurals.xlf", cat(text, "</group>", unit("dog", "pes"), "</body></file></xliff>"))).pairs;
  };
  EXPECT_THAT(read("nplurals=2; plural=n != 1;", {"a", "b"}),
              ElementsAre(is_pair("one file", "a"), is_pair("many files", "b"), is_pair("dog", "pes")));
  EXPECT_THAT(read("nplurals=3; plural=n==0 ? 0 : n==1 ? 1 : 2;", {"none", "one", "many"}),
              ElementsAre(is_pair("one file", "one"), is_pair("many files", "many"), is_pair("dog", "pes")));
  EXPECT_THAT(read("", {"a", "few", "many"}),
              ElementsAre(is_pair("one file", "a"), is_pair("many files", "many"), is_pair("dog", "pes")));
  EXPECT_THAT(read("nplurals=1; plural=0;", {"all"}), ElementsAre(is_pair("one file", "all"), is_pair("dog", "pes")));
  EXPECT_THAT(read("nplurals=3; plural=n==1 ? 0 : 2;", {"a", "b"}),
              ElementsAre(is_pair("one file", "a"), is_pair("dog", "pes")));
}

TEST_F(ReadersTest, AnUnfinishedPluralGroupOfXliffIsOneEntry) {
  const Bitext bitext =
      read_xliff(file("open.xlf",
                      "<xliff><file source-language='en' target-language='de'><group restype='x-gettext-plurals'>"
                      "<trans-unit approved='no'><source>one file</source><target>a</target></trans-unit>"
                      "<trans-unit approved='no'><source>many files</source><target>b</target></trans-unit>"
                      "</group></file></xliff>"));
  EXPECT_TRUE(bitext.pairs.empty());
  EXPECT_EQ(bitext.unfinished, 1);
}

TEST_F(ReadersTest, XliffOfBothVersions) {
  const Bitext old = read_xliff(
      file("a.xlf",
           "<xliff version=\"1.2\"><file source-language=\"en\" target-language=\"fr\"><body><trans-unit id=\"1\">"
           "<source>A <g id=\"1\">cat</g><x id=\"2\"/></source><target>Un chat</target></trans-unit>"
           "<trans-unit id=\"2\"><source>untranslated</source></trans-unit></body></file></xliff>"));
  EXPECT_EQ(old.target_lang, "fr");
  EXPECT_THAT(old.pairs, ElementsAre(is_pair("A cat", "Un chat")));
  const Bitext recent = read_xliff(
      file("b.xlf",
           "<xliff version=\"2.0\" srcLang=\"en\" trgLang=\"fr\"><file><unit id=\"1\"><segment><source>dog</source>"
           "<target>chien</target></segment></unit></file></xliff>"));
  EXPECT_EQ(recent.source_lang, "en");
  EXPECT_THAT(recent.pairs, ElementsAre(is_pair("dog", "chien")));
}

TEST_F(ReadersTest, XliffWithAPrefixOfItsNamespace) {
  const Bitext bitext = read_xliff(file(
      "p.xlf",
      "<x:xliff version=\"1.2\" xmlns:x=\"urn:oasis:names:tc:xliff:document:1.2\" xmlns:other=\"o\"><x:file "
      "source-language=\"en\" target-language=\"fr\"><x:body><x:trans-unit id=\"1\"><other:source>no</other:source>"
      "<x:source>A <x:g id=\"1\">cat</x:g><x:ph id=\"2\">code</x:ph></x:source><x:target>Un chat</x:target>"
      "</x:trans-unit></x:body></x:file></x:xliff>"));
  EXPECT_EQ(bitext.target_lang, "fr");
  EXPECT_THAT(bitext.pairs, ElementsAre(is_pair("A cat", "Un chat")));
}

TEST_F(ReadersTest, XliffIsOfOneLanguagePair) {
  const auto in = [](std::string_view languages, std::string_view target) {
    return cat("<file ", languages, "><body><trans-unit><source>a</source><target>", target,
               "</target></trans-unit></body></file>");
  };
  const auto read = [&](const std::string& other) {
    return read_xliff(file("a.xlf", cat("<xliff>", in("source-language='en' target-language='de'", "b"), other,
                                        in("source-language='en-US'", "d"), "</xliff>")));
  };
  const Bitext same = read(in("source-language='en' target-language='de-DE'", "c"));
  EXPECT_EQ(cat(same.source_lang, " ", same.target_lang), "en de");
  EXPECT_THAT(same.pairs, ElementsAre(is_pair("a", "b"), is_pair("a", "c"), is_pair("a", "d")));
  EXPECT_THAT(
      message_of([&] { read(in("source-language='en' target-language='fr'", "c")); }),
      HasSubstr("a.xlf' has a <file> in 'fr', but those before it are in 'de'; expected one language pair; make "
                "a document of each"));
  EXPECT_THAT(message_of([&] { read(in("source-language='de' target-language='en'", "c")); }),
              HasSubstr("has a <file> in 'de', but those before it are in 'en'"));
}

TEST_F(ReadersTest, XliffLeavesOutWhatIsUnfinished) {
  std::string units, segments;
  const auto unit = [](const std::string& state, const std::string& approved, const std::string& text) {
    return cat("<trans-unit", approved, "><source>", text, "</source><target", state, ">", text,
               "</target></trans-unit>");
  };
  for (const char* state : {"new", "needs-translation", "needs-l10n", "needs-adaptation", "needs-review-translation",
                            "needs-review-l10n", "needs-review-adaptation"})
    units += unit(cat(" state='", state, "'"), "", state);
  for (const char* state : {"translated", "signed-off", "final"}) units += unit(cat(" state='", state, "'"), "", state);
  units += unit(" state='final'", " approved='no'", "final, not approved");
  units += unit("", " approved='no'", "not approved") + unit("", " approved='yes'", "approved") + unit("", "", "plain");
  const Bitext old = read_xliff(file(
      "a.xlf", cat("<xliff><file source-language='en' target-language='fr'><body>", units, "</body></file></xliff>")));
  EXPECT_EQ(old.unfinished, 8);
  std::vector<std::string> kept;
  for (const Pair& pair : old.pairs) kept.push_back(pair.source);
  EXPECT_THAT(kept, ElementsAre("translated", "signed-off", "final", "final, not approved", "approved", "plain"));
  for (const char* state : {"initial", "translated"})
    segments += cat("<segment state='", state, "'><source>", state, "</source><target>x</target></segment>");
  const Bitext recent = read_xliff(file(
      "b.xlf", cat("<xliff version='2.0' srcLang='en' trgLang='fr'><file><unit>", segments, "</unit></file></xliff>")));
  EXPECT_EQ(recent.unfinished, 1);
  EXPECT_THAT(recent.pairs, ElementsAre(is_pair("translated", "x")));
}

}  // namespace
}  // namespace fovea::text::corpus_readers_test
