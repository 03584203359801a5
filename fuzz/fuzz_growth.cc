#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>
#include <string_view>

#include "loaders/loaders.h"

// Long files from strangers: one text again and again, between a beginning and an end. The first byte names the loader,
// the next two say where the repeated text begins and how long it is. Four times as many repetitions may take the
// processor some more than four times as long: work that grows like the square takes sixteen times as long.
namespace {

std::string grown(std::string_view bytes, size_t size) {
  const size_t begin = 3 + std::min<size_t>(static_cast<unsigned char>(bytes[1]), bytes.size() - 3);
  const std::string_view unit = bytes.substr(begin, 1 + static_cast<unsigned char>(bytes[2]) % 32);
  std::string text(1, bytes[0]);
  text += bytes.substr(3, begin - 3);
  while (!unit.empty() && text.size() < size) text += unit;
  return text.append(bytes.substr(begin + unit.size()));
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The least of some times, as other programs disturb each.
double seconds_of(const std::string& text, int times) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const double begin = thread_seconds();
    fovea::fuzz::load(text);
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  fovea::fuzz::silence_log();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kShort = size_t{1} << 14, kLong = 4 * kShort;
  constexpr double kMostGrowth = 10, kLeastSeconds = 0.01;
  if (size < 5) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string few = grown(bytes, kShort), many = grown(bytes, kLong);
  if (seconds_of(many, 1) <= kMostGrowth * std::max(seconds_of(few, 1), kLeastSeconds)) return 0;
  fovea::fuzz::require(seconds_of(many, 3) <= kMostGrowth * std::max(seconds_of(few, 3), kLeastSeconds),
                       "the work grows faster than the file");
  return 0;
}
