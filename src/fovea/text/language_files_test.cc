#include "fovea/text/language_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fovea::text {
namespace {
using Files = std::vector<std::string>;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(LanguageFiles, LanguagesStandAtTheEnd) {
  EXPECT_THAT(languages_of_files(Files{"a/train.en", "b.x/train.pt_BR.gz"}), ElementsAre("en", "pt_BR"));
  EXPECT_THAT(languages_of_files(Files{"train.en", "train.txt"}), IsEmpty());
  EXPECT_THAT(languages_of_files(Files{"train", "-"}), IsEmpty());
  EXPECT_THAT(languages_of_files(Files{}), IsEmpty());
}

TEST(LanguageFiles, SwappedSides) {
  EXPECT_TRUE(are_swapped_sides(Files{"train.en", "train.fr"}, Files{"valid.fr.xz", "valid.en"}));
  EXPECT_TRUE(are_swapped_sides(Files{"one", "two"}, Files{"two", "one"}));
  EXPECT_FALSE(are_swapped_sides(Files{"train.en", "train.fr"}, Files{"valid.en", "valid.fr"}));
  EXPECT_FALSE(are_swapped_sides(Files{"train.en", "train.fr"}, Files{"valid.fr", "valid.de"}));
  EXPECT_FALSE(are_swapped_sides(Files{"train.en", "train.en"}, Files{"valid.en", "valid.en"}));
  EXPECT_FALSE(are_swapped_sides(Files{"one", "two"}, Files{"2", "1"}));
  EXPECT_FALSE(are_swapped_sides(Files{"train.en"}, Files{"train.fr"}));
}

}  // namespace
}  // namespace fovea::text
