#include "fovea/base/strings.h"

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

namespace fovea {
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
}  // namespace fovea
