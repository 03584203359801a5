#include "fovea/text/text_changes.h"

#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"

namespace fovea::text::text_changes_test {
namespace {

using testing::HasSubstr;

constexpr const char* kLines = "\u4ed6\u8bf4\uff0c\u662f\u3002\n\u4ed6\u662f\u8c01\uff1f\nabc abd\nbad  cab\n";

class TextChangesTest : public testing::Test {
 protected:
  TextChangesTest() { write_file(folder_ / "a.txt", kLines); }
  Vocab trained(const std::string& type, const std::string& normalization) const {
    VocabTraining training{.inputs = {folder_ / "a.txt"}, .output = folder_ / "v.spm", .size = 0, .type = type};
    training.size = type == "bpe" ? 24 : 0;
    training.normalization = normalization;
    train_vocab(training);
    return Vocab::load(folder_ / "v.spm");
  }
  TextChanges of_text(const Vocab& vocab) const {
    TextChanges changes(vocab);
    for (const std::string& line : read_lines(folder_ / "a.txt")) changes.add(line);
    return changes;
  }
  TestFolder folder_;
};

TEST_F(TextChangesTest, CountsTheLinesThatNormalisationChanges) {
  for (const char* name : {"nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"}) {
    const Vocab vocab = trained("bpe", name);
    EXPECT_EQ(vocab.normalization(), name);
    const TextChanges changes = of_text(vocab);
    EXPECT_TRUE(changes.are_many());
    EXPECT_EQ(changes.in_words(),
              "50.00% of 4 lines, such as '\u4ed6\u8bf4\uff0c\u662f\u3002' to '\u4ed6\u8bf4,\u662f\u3002'");
  }
}

TEST_F(TextChangesTest, TextThatComesBackIsNotChanged) {
  const Vocab pieces = trained("bpe", kIdentity), words = trained("word", kIdentity),
              letters = trained("char", kIdentity);
  EXPECT_EQ(pieces.normalization(), kIdentity);
  for (const Vocab& vocab : {pieces, words, letters}) EXPECT_FALSE(of_text(vocab).are_many());
}

TEST_F(TextChangesTest, BlanksAloneAndUnknownTextAreNoChange) {
  const Vocab vocab = trained("bpe", "nfkc");
  TextChanges changes(vocab);
  for (const char* line : {"  abc   abd ", "\u00df unknown", "", " \u200b"}) changes.add(line);
  EXPECT_FALSE(changes.are_many());
}

// The example shows the place of the change, in one line, whatever the line's length.
TEST_F(TextChangesTest, AnExampleIsShort) {
  const Vocab vocab = trained("bpe", "nfkc");
  TextChanges changes(vocab);
  std::string line;
  for (int i = 0; i < 100; ++i) line += "\u4ed6";
  changes.add(line + "\x1b\uff0c" + line);
  EXPECT_THAT(changes.in_words(), HasSubstr("'\u2026\u4ed6\u4ed6"));
  EXPECT_LT(changes.in_words().size(), 200U);
  EXPECT_EQ(changes.in_words().find('\x1b'), std::string::npos);
  EXPECT_TRUE(is_valid_utf8(changes.in_words()));
}

// One line in two hundred does not change a score by much.
TEST_F(TextChangesTest, FewLinesAreNotMany) {
  const Vocab vocab = trained("bpe", "nfkc");
  TextChanges changes(vocab);
  changes.add("\uff0c");
  EXPECT_TRUE(changes.are_many());
  for (int i = 0; i < 199; ++i) changes.add("abc");
  EXPECT_FALSE(changes.are_many());
}

}  // namespace
}  // namespace fovea::text::text_changes_test
