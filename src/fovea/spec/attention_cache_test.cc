#include "fovea/spec/attention_cache.h"

#include <gtest/gtest.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::attention_cache_test {
namespace {

TEST(AttentionCache, GivesWhatParsingGives) {
  for (int round = 0; round < 2; ++round) {
    for (const char* text : {"full", "topk(8)+relu", "window(3)|global(1)"}) {
      EXPECT_EQ(print(parse_attention_once(text)), print(parse_attention(text)));
    }
  }
}

TEST(AttentionCache, ForgetsRatherThanGrows) {
  for (int k = 1; k <= 3000; ++k) {
    const std::string text = cat("topk(", k, ")");
    ASSERT_EQ(print(parse_attention_once(text)), text);
  }
  EXPECT_EQ(print(parse_attention_once("topk(1)")), "topk(1)");
}

TEST(AttentionCache, MistakesAreToldEachTime) {
  const std::string first = message_of([] { parse_attention_once("tpok(8)"); });
  EXPECT_NE(first, "");
  EXPECT_EQ(message_of([] { parse_attention_once("tpok(8)"); }), first);
}

}  // namespace
}  // namespace fovea::attention_cache_test
