#include "fovea/text/unicode.h"

#include <gmock/gmock.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/base/empty_line.h"
#include "fovea/base/rng.h"
#include "fovea/base/test_message.h"

namespace fovea::text::unicode_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Unicode, NormaliseJoinsBlanksAndDropsWhatIsNotSeen) {
  EXPECT_EQ(normalise("  a\t\tb\u00a0\u3000c\r\n"), "a b c");
  EXPECT_EQ(normalise("a\x01"
                      "b\u0085c\x7f"),
            "a b c");
  EXPECT_EQ(normalise("\ufeffSil\u00adbe\u200b"), "Silbe");
  EXPECT_EQ(normalise("Sil\u2060be"), "Silbe");
  EXPECT_EQ(normalise("e\u0301"), "\u00e9");
  EXPECT_EQ(normalise("\u0645\u06cc\u200c\u062e"), "\u0645\u06cc\u200c\u062e");  // Persian needs its non-joiner
  EXPECT_EQ(normalise(" \n "), "");
}

// NFC is of the text without what goes, so that a second time changes nothing.
TEST(Unicode, NormaliseTwiceIsNormaliseOnce) {
  EXPECT_EQ(normalise("e\u200b\u0301"), "\u00e9");
  EXPECT_EQ(normalise("q\u0323\u00ad\u0307"), normalise("q\u0307\u0323")) << "marks are in their order";
  static constexpr std::array<std::string_view, 22> kParts = {
      "e",      "a",      "\u00e9", "\u0301", "\u0323", "\u0307", "\u0345", "\u1112", "\u1161", "\u11ab", "\u00ad",
      "\u200b", "\u200d", "\u2060", "\ufeff", "\u202a", " ",      "\u2000", "\u3000", "\u0085", "\n",     "\u212b"};
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t parts = rng.below(12); parts > 0; --parts) text += kParts[rng.below(kParts.size())];
    const std::string once = normalise(text);
    ASSERT_EQ(normalise(once), once) << text;
  }
}

// A character's number is kept if it is among `kept`, as are blanks.
std::optional<CleanLine> cleaned(std::string_view line, std::u32string_view kept = {}) {
  return clean_line(line, [&](int32_t c) {
    return c == ' ' || c < 0x80 ? c >= ' ' : kept.find(static_cast<char32_t>(c)) != std::u32string_view::npos;
  });
}

TEST(Unicode, ALineIsCleanedExceptForCharactersThatAreKept) {
  const auto text = [](std::string_view line, std::u32string_view kept = {}) {
    const std::optional<CleanLine> clean = cleaned(line, kept);
    return clean ? clean->text : std::string(line);
  };
  EXPECT_EQ(text("insert\u00a0a\u2009row"), "insert a row");
  EXPECT_EQ(text("insert\u00a0a\u2009row", U"\u00a0"), "insert\u00a0a row");
  EXPECT_EQ(text("\ufeffSil\u00adbe\u200b"), "Silbe");
  EXPECT_EQ(text("Sil\u00adbe", U"\u00ad"), "Sil\u00adbe");
  EXPECT_EQ(text("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(text("cafe\u0301", U"\u0301"), "cafe\u0301") << "a vocabulary of decomposed text";
  EXPECT_EQ(text("cafe\u00ad\u0301"), "caf\u00e9");
  EXPECT_EQ(text("\u212b"), "\u00c5");
  EXPECT_EQ(text(" two  blanks "), " two  blanks ") << "they are known";
  EXPECT_EQ(text("a \u00a0 b"), "a  b");
  EXPECT_EQ(text("a\u00a0 b\t\u00a0"), "a b");
  EXPECT_EQ(text("\u00a0a\u00a0 "), "a");
  EXPECT_EQ(text("\u00a0\ufeff"), "");
  EXPECT_EQ(text("a\xff\u00a0\xc3 e\u0301"), "a\xff \xc3 \u00e9") << "bytes that are no text stay";
  for (const char* line : {"plain text", "Größe — 文件", "q\u0323\u0307"}) EXPECT_FALSE(cleaned(line)) << line;
}

TEST(Unicode, ACleanLineKnowsThePlacesInTheLine) {
  const std::string line = "\ufeffa\u00a0cafe\u0301\u00ad b\u00a0";
  const std::optional<CleanLine> clean = cleaned(line);
  ASSERT_TRUE(clean);
  EXPECT_EQ(clean->text, "a caf\u00e9 b");
  const auto of = [&](std::string_view word) {
    const size_t at = clean->text.find(word);
    const size_t begin = clean->line_begin(at);
    return line.substr(begin, clean->line_end(at + word.size()) - begin);
  };
  EXPECT_EQ(of("a "), "\ufeffa\u00a0");
  EXPECT_EQ(of("caf"), "caf");
  EXPECT_EQ(of("\u00e9"), "e\u0301\u00ad");
  EXPECT_EQ(of(" b"), " b");
  EXPECT_EQ(of("b"), "b");
}

// The places never fall and lie in the line, whatever its bytes are.
TEST(Unicode, PlacesOfCleanLinesAreOrdered) {
  static constexpr std::array<std::string_view, 12> kParts = {"e", "\u0301", "\u0323", "\u00ad", "\u200b", "\ufeff",
                                                              " ", "\u00a0", "\t",     "\xff",   "\u212b", "x"};
  Rng rng(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string line;
    for (uint64_t parts = rng.below(12); parts > 0; --parts) line += kParts[rng.below(kParts.size())];
    const std::optional<CleanLine> clean = cleaned(line);
    if (!clean) continue;
    EXPECT_FALSE(cleaned(clean->text)) << clean->text;
    size_t last = 0;
    for (size_t at = 0; at < clean->text.size(); ++at) {
      const size_t begin = clean->line_begin(at), end = clean->line_end(at + 1);
      ASSERT_LE(last, begin) << line;
      ASSERT_LT(begin, end) << line;
      ASSERT_LE(end, line.size()) << line;
      last = begin;
    }
  }
}

TEST(Unicode, BlanksAtTheEndsOfAText) {
  EXPECT_EQ(leading_blanks_size("\u00a0 \tx\u3000"), 4U);
  EXPECT_EQ(trailing_blanks_size("\u00a0x\u3000 "), 4U);
  EXPECT_EQ(leading_blanks_size("\u00a0"), 2U);
  EXPECT_EQ(trailing_blanks_size("\u00a0"), 2U);
  EXPECT_EQ(trailing_blanks_size("\x80"), 0U);
}

// base/empty_line.h has a table of its own. Code points that ICU's Unicode does not assign yet are left out.
TEST(Unicode, EmptyLinesAreThoseOfUnicode) {
  constexpr std::array kOthers = {0x2581, 0x2800, 0xfff9, 0xfffa, 0xfffb};
  for (UChar32 c = 0; c <= 0x10ffff; ++c) {
    const bool is_text = u_isdefined(c) != 0 || u_hasBinaryProperty(c, UCHAR_DEFAULT_IGNORABLE_CODE_POINT) != 0;
    if (!is_text || U_IS_SURROGATE(c)) continue;
    const bool is_unseen = u_charType(c) == U_CONTROL_CHAR || u_isUWhiteSpace(c) != 0 ||
                           u_hasBinaryProperty(c, UCHAR_DEFAULT_IGNORABLE_CODE_POINT) != 0 ||
                           std::ranges::find(kOthers, c) != kOthers.end();
    std::string text;
    icu::UnicodeString(c).toUTF8String(text);
    ASSERT_EQ(is_empty_line(text), is_unseen) << std::hex << c;
    ASSERT_EQ(unseen_size(text), is_unseen ? text.size() : 0U);
  }
}

TEST(Unicode, NormaliseLeavesNothingOfWhiteSpaceAndMarks) {
  for (const char* text : {" \t\x01\x7f\u00a0\u3000\ufeff\u200b", "\u00ad", "\u2060\u202a"})
    EXPECT_EQ(normalise(text), "");
}

TEST(Unicode, ColumnsOfATerminal) {
  EXPECT_EQ(terminal_columns(""), 0);
  EXPECT_EQ(terminal_columns("aß…▁"), 4);
  EXPECT_EQ(terminal_columns("文件ファ한Ａ。"), 14);
  EXPECT_EQ(terminal_columns("ｱ"), 1);
  EXPECT_EQ(terminal_columns("e\u0301\u20dd\u200d\ufe0f\u00ad"), 2);
  EXPECT_EQ(terminal_columns("\u1112\u1161\u11ab"), 2);
  EXPECT_EQ(terminal_columns("\xff"), 1);
}

TEST(Unicode, FoldedForgetsCaseAndPunctuation) {
  EXPECT_EQ(folded("Click »OK«!"), folded("click ok"));
  EXPECT_EQ(folded("STRASSE"), folded("straße"));
  EXPECT_NE(folded("Click OK"), folded("Click KO"));
  EXPECT_EQ(folded("..."), "...");
  EXPECT_THAT(folded_words("The cat's (3) hats."), ElementsAre("the", "cat", "s", "3", "hats"));
}

TEST(Unicode, MeasuresWordsWithAndWithoutBlanks) {
  EXPECT_EQ(measure("two words").words, 2);
  EXPECT_EQ(measure("two words").characters, 9);
  EXPECT_EQ(measure("two words").letters, 8);
  EXPECT_EQ(measure("北京欢迎").words, 2);
  EXPECT_EQ(measure("PDF 文件").words, 2);
  EXPECT_EQ(measure("123, 4").letters, 0);
  EXPECT_EQ(measure("").words, 0);
}

TEST(Unicode, OtherCharacterSets) {
  EXPECT_EQ(to_utf8("sch\xf6n", "ISO-8859-1"), "schön");
  EXPECT_THAT(message_of([] { to_utf8("x", "no-such-set"); }), HasSubstr("'no-such-set'"));
}

TEST(Unicode, CharactersTakeBytesAsTheirSetHasIt) {
  const auto length = character_length_in("Big5");
  EXPECT_EQ(length("\\n"), 1U);
  EXPECT_EQ(length("\xa5\x5cn"), 2U);
  for (const char* broken : {"\xa5", "\xa5!", "\xff", "\xa4"}) {
    EXPECT_EQ(length(broken), 1U);
    EXPECT_EQ(length("\\n"), 1U) << "something was left of the call before";
  }
  EXPECT_EQ(character_length_in("ISO-8859-1")("\xa5\x5c"), 1U);
  EXPECT_THAT(message_of([] { character_length_in("no-such-set"); }), HasSubstr("'no-such-set'"));
}

// Bytes alone, before one that does not follow, or cut off at the end: of ISO-8859-3, Shift-JIS, EUC-JP, Big5 and GBK.
TEST(Unicode, BytesThatAreNoCharacterShow) {
  EXPECT_EQ(to_utf8("a\xa5z", "ISO-8859-3"), "a\ufffdz");
  EXPECT_EQ(to_utf8("\x94\x4c\xff!\x81", "Shift_JIS"), "猫\ufffd!\ufffd");
  EXPECT_EQ(to_utf8("\xff\xc7\xad", "EUC-JP"), "\ufffd猫");
  EXPECT_EQ(to_utf8("a\xa4!\xa5", "Big5"), "a\ufffd!\ufffd");
  EXPECT_EQ(to_utf8("\xc3\xa8\x81!", "GBK"), "猫\ufffd!");
}

}  // namespace
}  // namespace fovea::text::unicode_test
