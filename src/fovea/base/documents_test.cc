#include "fovea/base/documents.h"

#include <gmock/gmock.h>

#include "fovea/base/test_message.h"

namespace fovea::documents_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Documents, BeginAtMarksAndAtLinesWithoutText) {
  for (const char* line : {"<d>", " <d> ", "", " \t", "\r", "<d>\r", "\u200b", "\u3000\ufeff"})
    EXPECT_TRUE(begins_document(line)) << line;
  for (const char* line : {"<d> a", "<D>", "d", "."}) EXPECT_FALSE(begins_document(line)) << line;
}

TEST(Documents, AreJoinedAtTheBoundariesOfTheOtherText) {
  const std::vector<std::string> marks = {"<d>", "", "a", "b", "", "c"};
  const std::vector<std::string> lines = {"<d>", "", "x", "", "", "z"};
  EXPECT_THAT(join_documents(marks, marks), ElementsAre("a b", "c"));
  EXPECT_THAT(join_documents(lines, marks), ElementsAre("x ", "z"));
  EXPECT_THAT(join_documents({}, {}), IsEmpty());
}

TEST(Documents, RefuseABoundaryOnOneSideOnly) {
  EXPECT_NO_THROW(require_same_boundary(3, {"a", "<d>"}, {"b", ""}));
  EXPECT_THAT(message_of([] {
                require_same_boundary(3, {"a", "text"}, {"b", "<d>"});
              }),
              HasSubstr("line 3: 'b' begins a document there (<d>), but 'a' has a sentence"));
  EXPECT_THAT(message_of([] { require_same_boundary(3, {"a", ""}, {"b", "x"}); }), HasSubstr("(an empty line)"));
}

}  // namespace
}  // namespace fovea::documents_test
