#include "fovea/base/fields.h"

#include <gtest/gtest.h>
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::fields_test {
namespace {

struct Numbers {
  int64_t count = 0;
  static constexpr auto fields() { return std::tuple(number("count", &Numbers::count, "", 1, 5e9)); }
};

// The value that the text sets, or the refusal.
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

TEST(Fields, RefuseWhatTheirTypeCannotHold) {
  std::vector<int64_t> values;
  const FieldView field = {"sizes", "", -1e300, 1e300, {}, {}, &values};
  assign(field, {"9000000000000000K", "-9G", "9223372036854775807"});
  EXPECT_EQ(values, (std::vector<int64_t>{9'000'000'000'000'000'000, -9'000'000'000, INT64_MAX}));
  for (const std::string text : {"9223372036854775807G", "9223372036854776K", "-9223372036854775808K"})
    EXPECT_EQ(message_of([&] { assign(field, {text}); }), cat("--sizes: got '", text, "'; expected a whole number"));
  EXPECT_EQ(message_of([&] { assign(field, {"1\n2"}); }), "--sizes: got '1 2'; expected a whole number");
}

TEST(Fields, CountTheValuesOfAList) {
  std::vector<std::string> values;
  const FieldView field = {"languages", "", -kNoLimit, kNoLimit, {}, {}, &values, 2};
  assign(field, {"en", "de"});
  EXPECT_EQ(message_of([&] {
              assign(field, {"en", "de", "fr"});
            }),
            "--languages: got 'en de fr'; expected at most 2 values");
}

}  // namespace
}  // namespace fovea::fields_test
