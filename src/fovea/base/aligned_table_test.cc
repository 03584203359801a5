#include "fovea/base/aligned_table.h"

#include <gtest/gtest.h>

namespace fovea::aligned_table_test {
namespace {

TEST(AlignedTable, PutsTheTextsOfAColumnBelowOneAnother) {
  EXPECT_EQ(aligned_table({{"spec", "loss"}, {"topk(8)", "1.5"}, {"a\nb", ""}}),
            "spec     loss\n"
            "topk(8)  1.5\n"
            "a b\n");
}

TEST(AlignedTable, CountsCharactersAndNotBytes) {
  EXPECT_EQ(aligned_table({{"name", "mean"}, {"für", "0.5±0.1"}}, CellSide::kRight),
            "  name     mean\n"
            "   für  0.5±0.1\n");
}

}  // namespace
}  // namespace fovea::aligned_table_test
