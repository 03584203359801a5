#include "fovea/analysis/report_weights.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <new>

namespace fovea::analysis {
namespace {

constexpr unsigned kNegativeBit = 128;

}  // namespace

int64_t HeadWeights::pairs() const {
  int64_t sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += row_length(r);
  return sum;
}

float weight_scale(const HeadWeights& weights, int64_t head) {
  float greatest = 1;
  const float* const begin = weights.row(head, 0);
  for (const float* w = begin; w != begin + weights.rows * weights.columns; ++w)
    greatest = std::max(greatest, std::abs(*w));
  return greatest;
}

void append_weight_codes(const HeadWeights& weights, int64_t head, float scale, std::string& codes) {
  for (int64_t r = 0; r < weights.rows; ++r) {
    const float* const row = weights.row(head, r);
    for (int64_t c = 0; c < weights.row_length(r); ++c) {
      unsigned code = 0;
      if (row[c] != 0) {
        const float level = std::round(kMostWeightLevels * std::sqrt(std::abs(row[c]) / scale));
        code = static_cast<unsigned>(std::clamp<float>(level, 1, kMostWeightLevels));
        if (row[c] < 0) code += kNegativeBit;
      }
      codes.push_back(static_cast<char>(code));
    }
  }
}

std::string with_few_levels(const std::string& codes) {
  std::string out = codes;
  for (char& c : out) {
    const auto code = static_cast<unsigned char>(c);
    const unsigned level = code % kNegativeBit;
    const unsigned fewer = (2 * level * kFewWeightLevels + kMostWeightLevels) / (2 * kMostWeightLevels);
    c = static_cast<char>(code - level + (level == 0 ? 0 : std::max(1U, fewer)));
  }
  return out;
}

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int result =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
  if (result != Z_OK) throw std::bad_alloc();  // the only failure with enough room for the result
  out.resize(size);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8U | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) out.push_back(j <= count ? kDigits[group >> (18 - 6 * j) & 63U] : '=');
  }
  return out;
}

}  // namespace fovea::analysis
