#include "fovea/data/image_order.h"

#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"

namespace fovea::data::image_order_test {
namespace {

using testing::HasSubstr;
using Names = std::vector<std::string>;

std::string warning_of(const Names& names) {
  const TestFolder folder;
  for (const std::string& name : names) write_file(folder / name, "");
  testing::internal::CaptureStderr();
  warn_of_image_order({folder / "2.png", folder / ""}, "--train-sets", "the lines");
  return testing::internal::GetCapturedStderr();
}

TEST(ImageOrder, WarnsOfNumbersThatAreSortedAsTexts) {
  EXPECT_THAT(warning_of({"0.png", "2.png", "10.png", "notes.txt"}),
              HasSubstr("': image '10' comes before '2', because names are sorted as texts, and the lines follow this "
                        "order; expected numbers of one length, such as 002"));
  for (const Names& names : {Names{"8.png", "9.png"}, Names{"00.png", "02.png", "10.png"}, Names{"a10.png", "a2.png"}})
    EXPECT_EQ(warning_of(names), "");
}

}  // namespace
}  // namespace fovea::data::image_order_test
