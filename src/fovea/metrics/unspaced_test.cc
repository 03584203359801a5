#include "fovea/metrics/unspaced.h"

#include <gmock/gmock.h>

#include <vector>

#include "fovea/metrics/tokenize.h"

namespace fovea::metrics::unspaced_test {
namespace {

using Lines = std::vector<std::string>;

TEST(Unspaced, NamesTheTokenizerOfTheScript) {
  for (const char* tokenize : {"13a", "intl", "none"}) {
    EXPECT_EQ(better_tokenizer(Lines{"他说，这是一九九八年的书。", "他是谁？"}, tokenize), "zh");
    EXPECT_EQ(better_tokenizer(Lines{"床前明月光 疑是地上霜"}, tokenize), "zh");
    EXPECT_EQ(better_tokenizer(Lines{"これは本です。", "東京に行きました。"}, tokenize), "char");
    EXPECT_EQ(better_tokenizer(Lines{"สวัสดีชาวโลก"}, tokenize), "char");
    EXPECT_EQ(better_tokenizer(Lines{"a few words, 词", "and more words"}, tokenize), "");
    EXPECT_EQ(better_tokenizer(Lines{"나는 학교에 간다."}, tokenize), "");
    EXPECT_EQ(better_tokenizer(Lines{"他 说 ， 这 是 书 。"}, tokenize), "") << "the words stand apart";
    EXPECT_EQ(better_tokenizer(Lines{"", "。"}, tokenize), "");
    EXPECT_EQ(better_tokenizer(Lines{}, tokenize), "");
  }
}

TEST(Unspaced, AChosenTokenizerIsRight) {
  for (const char* tokenize : {"zh", "char"}) EXPECT_EQ(better_tokenizer(Lines{"他是谁？"}, tokenize), "");
}

TEST(Unspaced, NamesTokenizersThatExist) {
  for (const Lines& lines : {Lines{"他是谁？"}, Lines{"これは本です。"}})
    EXPECT_NO_THROW(find_tokenizer(better_tokenizer(lines, "13a")));
  EXPECT_THAT(unspaced_message("--tokenize", "13a", "zh"), testing::EndsWith("BLEU needs --tokenize zh"));
}

}  // namespace
}  // namespace fovea::metrics::unspaced_test
