#include "fovea/nn/checkpoint_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/test_checkpoints.h"

namespace fovea::nn::checkpoint_files_test {
namespace {
using ::testing::HasSubstr;

using Map = std::map<std::string, std::string>;

TEST(CheckpointFiles, ReadAnyMapBack) {
  for (const Map& map : {Map{{"config.yml", "0123456789abcdef"}, {"model.safetensors/a.b_c-1", ""}},
                         Map{{"a: b", "x\n\x1b"}, {"\u4f60", "\"\\"}, {"- c", "\u009b"}, {"1", "~"}}, Map{{"", ""}}})
    EXPECT_EQ(parse_map(print_map(map), "x"), map);
}

// Lines of the usual form are read without the YAML library; both must give the same.
TEST(CheckpointFiles, ReadUsualLinesAsYaml) {
  const std::string lines = "a.b/c: \"x y: z # 1\"\nd_e-1: \"\"\n";
  const std::string comment = "# other lines are for the YAML library\n";
  EXPECT_EQ(parse_map(lines, "x"), parse_map(comment + lines, "x"));
  EXPECT_EQ(parse_map(lines, "x"), (Map{{"a.b/c", "x y: z # 1"}, {"d_e-1", ""}}));
  for (const std::string& head : {std::string(), comment})
    EXPECT_EQ(message_of([&] { parse_map(cat(head, lines, "d_e-1: \"2\"\n"), "x"); }),
              "x: damaged; 'd_e-1' is there twice");
}

TEST(CheckpointFiles, SayWhatIsDamaged) {
  for (const char* text : {"", "a", "- a\n", "a: [1]\n", "a: \"x\"\n[b", "a: \"\\q\"\n"})
    EXPECT_THAT(message_of([&] { parse_map(text, "sums.yml"); }), ::testing::StartsWith("sums.yml: damaged")) << text;
}

// The sum of a file in checksums.yml, replaced.
std::string refusal_of_sum(const std::string& sum) {
  const TestFolder run;
  const std::filesystem::path checkpoint = save(run.path(), 7), sums = checkpoint / kChecksumFile;
  Map map = parse_map(read_file(sums), "x");
  map["config.yml"] = sum;
  write_file(sums, print_map(map));
  return message_of([&] { load_checkpoint(checkpoint, Load::kModel); });
}

TEST(CheckpointFiles, HaveChecksumsOfSixteenDigits) {
  for (const char* sum : {"", "0", "0123456789ABCDEF", "0123456789abcdef0", "-123456789abcdef", "x\n"})
    EXPECT_THAT(refusal_of_sum(sum), HasSubstr("expected a checksum of 16 hexadecimal digits")) << sum;
  EXPECT_THAT(refusal_of_sum("0123456789abcdef"), HasSubstr("config.yml: damaged: its checksum is "));
}

// A named pipe would be waited for, and a device has no end.
TEST(CheckpointFiles, AreRegularFiles) {
  const TestFolder run;
  const std::filesystem::path checkpoint = save(run.path(), 7);
  for (const char* name : {"source.spm", kConfigFile, kChecksumFile}) {
    std::filesystem::remove(checkpoint / name);
    ASSERT_EQ(mkfifo((checkpoint / name).c_str(), 0600), 0);
    EXPECT_THAT(message_of([&] { load_checkpoint(checkpoint, Load::kModel); }),
                HasSubstr(cat(name, ": is not a regular file")));
  }
}

}  // namespace
}  // namespace fovea::nn::checkpoint_files_test
