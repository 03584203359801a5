#include "fovea/base/fields.h"

#include <gtest/gtest.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea {
namespace {

struct Numbers {
  int64_t count = 0;
  static constexpr auto fields() { return std::tuple(number("count", &Numbers::count, "", 1, 5e9)); }
};

// What the text sets, or the refusal.
std::string count_of(const std::string& text) {
  Numbers numbers;
  const std::string refusal = message_of([&] { assign(field_views(numbers)[0], {text}); });
  return refusal == "nothing was thrown" ? std::to_string(numbers.count) : refusal;
}

TEST(Fields, TakeNumbersWithOneUnitAndNothingElse) {
  EXPECT_EQ(count_of("8"), "8");
  EXPECT_EQ(count_of("8K"), "8000");
  EXPECT_EQ(count_of("8k"), "8000");
  EXPECT_EQ(count_of("2M"), "2000000");
  EXPECT_EQ(count_of("5G"), "5000000000");
  for (const char* wrong : {"6G", "2m", "3x", "3KK", "K", "", " 3", "3 ", "1.5", "0"})
    EXPECT_EQ(count_of(wrong),
              cat("--count: got '", wrong, "'; expected a whole number of at least 1 and at most 5,000,000,000"));
}

}  // namespace
}  // namespace fovea
