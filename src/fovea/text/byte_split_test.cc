#include "fovea/text/byte_split.h"

#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::text::byte_split_test {
namespace {

using testing::HasSubstr;

class ByteSplitTest : public testing::Test {
 protected:
  CorpusOptions options(const std::string& input, std::vector<int64_t> sizes) const {
    CorpusOptions made;
    made.inputs = {folder_ / input};
    made.output = folder_.path();
    made.split_bytes = std::move(sizes);
    return made;
  }
  TestFolder folder_;
};

TEST_F(ByteSplitTest, PartsAreTheFilesBytesInTheirOrder) {
  Rng rng(1);
  std::string bytes;  // more than is read at once, and not text
  while (bytes.size() < 2'500'000) bytes.push_back(static_cast<char>(rng.below(256)));
  write_file(folder_ / "plain", bytes);
  LineWriter packed(folder_ / "packed.xz");
  packed.write(bytes);
  packed.close();
  for (const char* input : {"plain", "packed.xz"}) {
    const ByteParts parts = split_bytes(options(input, {2'000'001, 300'000, 1}));
    EXPECT_TRUE(parts.has_more);
    ASSERT_EQ(parts.files.size(), 3U);
    EXPECT_EQ(parts.files[1], folder_ / "valid.txt");
    EXPECT_TRUE(read_file(folder_ / "train.txt") == bytes.substr(0, 2'000'001));
    EXPECT_TRUE(read_file(folder_ / "valid.txt") == bytes.substr(2'000'001, 300'000));
    EXPECT_TRUE(read_file(folder_ / "test.txt") == bytes.substr(2'300'001, 1));
    EXPECT_FALSE(split_bytes(options(input, {2'000'000, 300'000, 200'000})).has_more);
    EXPECT_EQ(std::filesystem::file_size(folder_ / "test.txt"), 200'000U);
  }
}

TEST_F(ByteSplitTest, SaysWhatIsWrongAndLeavesTheOldFiles) {
  write_file(folder_ / "a", "0123456789");
  const auto says = [&](const CorpusOptions& split) { return message_of([&] { split_bytes(split); }); };
  split_bytes(options("a", {5, 3, 2}));
  EXPECT_THAT(says(options("a", {1, 2, 8})), HasSubstr("a' has 10 bytes; expected at least 11, the sum of the parts"));
  EXPECT_EQ(read_file(folder_ / "train.txt"), "01234");
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"a", "train.txt", "valid.txt", "test.txt"}));
  EXPECT_THAT(says(options("a", {1, 2})), HasSubstr("--split-bytes: got 2 values; expected three"));
  EXPECT_THAT(says(options("none", {1, 2, 3})), HasSubstr("--split-bytes: no such file"));
  EXPECT_THAT(says(options("train.txt", {1, 1, 1})), HasSubstr("would be changed"));
  CorpusOptions two = options("a", {1, 1, 1}), parallel = two;
  two.inputs.push_back(folder_ / "a");
  EXPECT_THAT(says(two), HasSubstr("--split-bytes: got 2 files; expected one"));
  parallel.valid = 5;
  EXPECT_THAT(says(parallel), HasSubstr("--valid: is for parallel text; got it beside --split-bytes"));
}

}  // namespace
}  // namespace fovea::text::byte_split_test
