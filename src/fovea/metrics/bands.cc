#include "fovea/metrics/bands.h"

#include <algorithm>
#include <numeric>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/unicode.h"
#include "fovea/metrics/unspaced.h"

namespace fovea::metrics {
namespace {

int64_t words_of(const std::string& line) {
  const std::u32string text = decode_utf8(line);
  return std::ssize(split_words(text));
}

int64_t characters_of(const std::string& line) { return std::ssize(without_spaces(decode_utf8(line))); }

}  // namespace

Bands bands_by_length(std::span<const std::string> lines, int64_t count) {
  if (std::ssize(lines) < count)
    throw Error(cat("--bands ", count, ": got ", lines.size(), " segments; expected one per band, or fewer bands"));
  const bool has_words = better_tokenizer(lines, "none").empty();
  std::vector<int64_t> lengths;
  for (const std::string& line : lines) lengths.push_back(has_words ? words_of(line) : characters_of(line));
  std::vector<uint32_t> order(lines.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](uint32_t segment) { return lengths[segment]; });
  Bands out{has_words ? "words" : "characters", {}};
  const auto all = static_cast<int64_t>(order.size());
  for (int64_t b = 0; b < count; ++b) {
    Band band;
    band.segments.assign(order.begin() + b * all / count, order.begin() + (b + 1) * all / count);
    band.shortest = lengths[band.segments.front()], band.longest = lengths[band.segments.back()];
    std::ranges::sort(band.segments);
    out.bands.push_back(std::move(band));
  }
  return out;
}

}  // namespace fovea::metrics
