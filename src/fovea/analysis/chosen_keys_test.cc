#include "fovea/analysis/chosen_keys.h"

#include <gtest/gtest.h>

#include <vector>

namespace fovea::analysis::chosen_keys_test {
namespace {

Row row(int64_t query, int64_t keys, bool causal = false) { return {.query = query, .keys = keys, .causal = causal}; }

TEST(ChosenKeys, CountsWhatIsLeft) {
  EXPECT_EQ(chosen_count(parse_attention("full"), row(3, 10)), 10);
  EXPECT_EQ(chosen_count(parse_attention("full"), row(3, 10, true)), 4);
  EXPECT_EQ(chosen_count(parse_attention("window(3)"), row(0, 10)), 2);
  EXPECT_EQ(chosen_count(parse_attention("topk(4)"), row(2, 10, true)), 3);
  EXPECT_EQ(chosen_count(parse_attention("topk(4)"), row(9, 10, true)), 4);
  EXPECT_EQ(chosen_count(parse_attention("topk(4,keep=window(3))"), row(5, 10)), 7);
}

TEST(ChosenKeys, LostAreChosenOnesWithoutWeight) {
  const std::vector<float> weights = {0.5F, 0, 0.5F, 0, 0};
  EXPECT_EQ(lost_keys(row(2, 5), weights, parse_attention("full")), 3);
  EXPECT_EQ(lost_keys(row(2, 5), weights, parse_attention("window(3)")), 1);
  EXPECT_EQ(lost_keys(row(2, 5), weights, parse_attention("topk(2)")), 0);
  EXPECT_EQ(lost_keys(row(2, 5), weights, parse_attention("topk(4)")), 2);
  for (const char* spec :
       {"sparsemax", "relu", "entmax(1.5)", "routed(2,2)", "clause(1)", "clause(1)+topk(4)", "span(4,2)"})
    EXPECT_EQ(lost_keys(row(2, 5), weights, parse_attention(spec)), 0) << spec;
}

}  // namespace
}  // namespace fovea::analysis::chosen_keys_test
