#include "fovea/spec/config_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/base/test_message.h"

namespace fovea::config_version_test {
namespace {

struct Small {
  int64_t size = 1;
  static constexpr auto fields() { return std::tuple(field("size", &Small::size, "")); }
};

int64_t size_in(std::string_view text) {
  Small small;
  from_versioned_yaml(text, "train.yml", "0.10.2", field_views(small));
  return small.size;
}

std::string refusal(std::string_view text) {
  return message_of([&] { size_in(text); });
}

TEST(ConfigVersion, ReadsFilesOfThisAndOfOlderVersions) {
  EXPECT_EQ(size_in("size: 3\n"), 3);
  for (const char* version : {"0.10.2", "0.10.1", "0.9.7", "0.10", "0"})
    EXPECT_EQ(size_in(std::string("fovea-version: \"") + version + "\"\nsize: 4\n"), 4) << version;
}

TEST(ConfigVersion, RefusesNewerOnes) {
  for (const char* version : {"0.10.3", "0.11.0", "1.0", "0.10.2.1"})
    EXPECT_EQ(refusal(std::string("size: 4\nlater: 1\nfovea-version: \"") + version + "\"\n"),
              std::string("train.yml: fovea ") + version +
                  " wrote this file, which is newer than this fovea (0.10.2); use that version, or remove the line "
                  "fovea-version if the options mean the same here");
  EXPECT_EQ(refusal("fovea-version: soon\n"), "train.yml: fovea-version: got 'soon'; expected a version such as 1.0.2");
}

TEST(ConfigVersion, LeavesOtherMistakesToTheReader) {
  EXPECT_EQ(refusal("fovea-version: 0.9.0\nsizes: 4\n"), "train.yml:2: unknown key 'sizes'; did you mean 'size'?");
  EXPECT_EQ(refusal("fovea-version: [1\n").substr(0, 24), "train.yml: not YAML at l");
}

}  // namespace
}  // namespace fovea::config_version_test
