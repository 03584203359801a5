#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <memory>
#include <ostream>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "growth.h"

namespace fovea::growth {

std::string repeated(std::string_view text, size_t bytes) {
  std::string all;
  all.reserve(bytes + text.size());
  while (all.size() < bytes) all += text;
  return all;
}

std::string numbered(std::string_view unit, size_t bytes) {
  std::string all;
  for (int64_t number = 1; all.size() < bytes; ++number)
    for (const char c : unit) all += c == '#' ? std::to_string(number) : std::string(1, c);
  return all;
}

Make repeat(std::string unit) {
  return [unit = std::move(unit)](size_t bytes) { return repeated(unit, bytes); };
}

Make number(std::string unit) {
  return [unit = std::move(unit)](size_t bytes) { return numbered(unit, bytes); };
}

Case on_text(std::string name, size_t bytes, Make make, Read read) {
  return {.name = std::move(name), .bytes = bytes, .prepare = [make, read](size_t size) {
            return [text = make(size), read] { read(text); };
          }};
}

Case on_file(std::string name, size_t bytes, Make make, Read read) {
  return {.name = std::move(name), .bytes = bytes, .prepare = [make, read](size_t size) {
            static const TestFolder folder;
            const std::string path = folder / "input";
            write_file(path, make(size));
            return [path, read] { read(path); };
          }};
}

// The name of a test's parameter.
void PrintTo(const Case& shown, std::ostream* out) { *out << shown.name; }

namespace {

constexpr std::array<size_t, 2> kTimes = {1, 8};
// A cost that grows like the input times its logarithm is about 10 times as high for 8 times the input, and one that
// grows like the square 64 times as high. Buffers that double add to the bytes; caches, and pages that are new, to the
// time.
constexpr double kMostGrowth = 20, kMostGrowthOfTime = 32;

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& list : {markup_cases(), request_cases(), text_cases(), vocabulary_cases(), corpus_cases(),
                           file_cases(), metric_cases()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name = cat(info.index, "_", info.param.name);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

class Growth : public testing::TestWithParam<Case> {
 protected:
  Growth() { log::configure({.level = log::Level::kError, .file = {}}); }

  // Says what is wrong if the input was not read, or not refused, as it should be.
  void check(const Cost& cost) const {
    if (GetParam().refusal.empty()) {
      EXPECT_EQ(cost.refusal, "");
    } else {
      EXPECT_NE(cost.refusal.find(GetParam().refusal), std::string::npos) << cost.refusal;
    }
  }
};

// The bytes that are allocated count what is copied.
TEST_P(Growth, OfBytes) {
  constexpr double kLeast = 1 << 18;
  constexpr size_t kSmaller = 4;  // counts are exact, so that small inputs are enough
  std::array<Cost, kTimes.size()> costs;
  std::string shown;
  for (size_t i = 0; i < kTimes.size(); ++i) {
    const auto work = GetParam().prepare(GetParam().bytes / kSmaller * kTimes[i]);
    if (i == 0) (void)cost_of(work);  // what is made once, such as tables of libraries
    costs[i] = cost_of(work);
    check(costs[i]);
    shown += cat(" | ", fixed(static_cast<double>(costs[i].bytes) / 1e6, 2));
  }
  std::printf("| %s | %zu%s | %.2f |\n", GetParam().name.c_str(), GetParam().bytes / kSmaller, shown.c_str(),
              static_cast<double>(costs.back().peak) / 1e6);
  EXPECT_LT(static_cast<double>(costs.back().bytes),
            kMostGrowth * std::max(static_cast<double>(costs.front().bytes), kLeast));
}

// The processor's time of this thread, the least of three: other programs add to it. The second and the third time of
// the larger input, which take the longest, are only looked at if the first one is too long.
TEST_P(Growth, OfTime) {
  constexpr double kLeast = 1e-3;
  constexpr size_t kSmaller = 2;
  std::array<double, kTimes.size()> seconds;
  std::string shown;
  for (size_t i = 0; i < kTimes.size(); ++i) {
    const auto work = GetParam().prepare(GetParam().bytes / kSmaller * kTimes[i]);
    const bool is_last = i + 1 == kTimes.size();
    seconds[i] = cost_of(work).seconds;
    for (int again = 0; again < 2; ++again)
      if (!is_last || seconds[i] >= kMostGrowthOfTime * std::max(seconds.front(), kLeast))
        seconds[i] = std::min(seconds[i], cost_of(work).seconds);
    shown += cat(" | ", fixed(1e3 * seconds[i], 2));
  }
  std::printf("| %s | %zu%s |\n", GetParam().name.c_str(), GetParam().bytes / kSmaller, shown.c_str());
  EXPECT_LT(seconds.back(), kMostGrowthOfTime * std::max(seconds.front(), kLeast));
}

INSTANTIATE_TEST_SUITE_P(Readers, Growth, testing::ValuesIn(all_cases()), test_name);

}  // namespace
}  // namespace fovea::growth
