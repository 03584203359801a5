#include "fovea/base/strings.h"

#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/rng.h"

namespace fovea::strings_test {
namespace {
using testing::ElementsAre;

TEST(Strings, KnowWhatIsUtf8) {
  for (const std::string_view valid : {"", "a", "\xc2\x80", "gr\xc3\xbc\xc3\x9f", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                       "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_valid_utf8(valid)) << valid;
  for (const std::string_view invalid :
       {"\x80", "\xff", "a\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82x", "\xf0\x9f\x98"})
    EXPECT_FALSE(is_valid_utf8(invalid));
}

// Checks the values of code points: neither overlong, nor a surrogate, nor beyond U+10FFFF.
bool is_well_formed(std::string_view text) {
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};  // by the number of bytes
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const int ones = std::countl_one(lead), size = std::max(ones, 1);
    if (ones == 1 || ones > 4 || std::ssize(text) < size) return false;
    uint32_t code = lead & (0xffU >> ones);
    for (const char next : text.substr(1, static_cast<size_t>(size - 1))) {
      const auto byte = static_cast<unsigned char>(next);
      if ((byte & 0xc0U) != 0x80) return false;
      code = code << 6 | (byte & 0x3fU);
    }
    const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    if (code < kLeast[static_cast<size_t>(size)] || is_surrogate || code > 0x10ffff) return false;
    text.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

TEST(Strings, Utf8IsWhatGivesCodePoints) {
  constexpr std::array<unsigned char, 17> kBytes = {'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1,
                                                    0xc2, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff};
  Rng rng(3);
  int num_valid = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint64_t size = 1 + rng.below(4); size > 0; --size)
      text.push_back(static_cast<char>(kBytes[rng.below(kBytes.size())]));
    EXPECT_EQ(is_valid_utf8(text), is_well_formed(text)) << testing::PrintToString(text);
    num_valid += is_valid_utf8(text) ? 1 : 0;
  }
  EXPECT_GT(num_valid, 100);
}

TEST(Strings, FirstCharacterSaysWhatIsMissing) {
  using Kind = CharacterStart::Kind;
  struct Case {
    std::string_view text;
    Kind kind;
    size_t size;
  };
  for (const Case& c :
       {Case{"ab", Kind::kWhole, 1}, Case{"\xc3\xbcx", Kind::kWhole, 2}, Case{"\xf0\x9f\x98\x80", Kind::kWhole, 4},
        Case{"\xf0\x9f\x98", Kind::kCut, 3}, Case{"\xe4", Kind::kCut, 1}, Case{"\xe4x", Kind::kInvalid, 1},
        Case{"\x80", Kind::kInvalid, 1}, Case{"\xed\xa0", Kind::kInvalid, 1}}) {
    EXPECT_EQ(first_character(c.text).kind, c.kind);
    EXPECT_EQ(first_character(c.text).size, c.size);
  }
}

TEST(Strings, NumbersAndLists) {
  EXPECT_EQ(thousands(-1234567), "-1,234,567");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(fixed(2.5, 2), "2.50");
  EXPECT_EQ(scientific(0.00023534, 4), "2.3534e-04");
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split_words("  a\tb \n"), ElementsAre("a", "b"));
  EXPECT_EQ(trim(" a b\r\n"), "a b");
}

TEST(Strings, SuggestsTheNearName) {
  const std::vector<std::string> known = {"window", "block", "random"};
  EXPECT_EQ(did_you_mean("windw", known), "; did you mean 'window'?");
  EXPECT_EQ(did_you_mean("zebra", known), "");
  const std::vector<std::string> flags = {
      "--seed",      "--valid-beam-size", "--tied-embeddings-all", "--tied-embeddings", "--normalize",
      "--clip-norm", "--lr-warmup"};
  EXPECT_EQ(nearest("--tied", flags), "--tied-embeddings");
  EXPECT_EQ(nearest("--beam", flags), "--valid-beam-size");
  EXPECT_EQ(nearest("--beam-size", flags), "--valid-beam-size");
  EXPECT_EQ(nearest("--norm", flags), "--normalize");
  EXPECT_EQ(nearest("--warmup", flags), "--lr-warmup");
  EXPECT_EQ(nearest("--sede", flags), "--seed");
  EXPECT_EQ(nearest("--", flags), "");
}

// Two neighbours that changed places are one mistake, the most that a name of four letters may have.
TEST(Strings, SuggestsAcrossATransposition) {
  const std::vector<std::string> known = {"full", "bleu"};
  EXPECT_EQ(did_you_mean("belu", known), "; did you mean 'bleu'?");
  EXPECT_EQ(did_you_mean("lbeu", known), "; did you mean 'bleu'?");
}

}  // namespace
}  // namespace fovea::strings_test
