#include "fovea/kernels/attention/testing/arrays.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace fovea::kernels::testing_suite {
namespace {

size_t size_of(DType dtype) { return dtype == DType::kFloat64 ? 8 : dtype == DType::kFloat32 ? 4 : 2; }

// To nearest, ties to even; NaN stays NaN.
uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace

double round_to(DType dtype, double value) {
  if (dtype == DType::kFloat64) return value;
  const auto narrow = static_cast<float>(value);
  return dtype == DType::kFloat32 ? narrow : from_bfloat16(to_bfloat16(narrow));
}

Array::Array(DType dtype, Layout layout, int64_t tokens, int64_t heads, int64_t width)
    : dtype_(dtype), tokens_(tokens), heads_(heads), width_(width), size_(size_of(dtype)) {
  const int64_t gap = layout == Layout::kPadded ? 3 : 0;
  start_ = layout == Layout::kPadded ? 1 : 0;
  if (layout == Layout::kHeadMajor) {
    token_stride_ = width;
    head_stride_ = width * tokens;
  } else {
    head_stride_ = width + gap;
    token_stride_ = heads * head_stride_ + gap;
  }
  const int64_t elements = start_ + tokens * heads * (width + gap) + tokens * gap + gap;
  has_gaps_ = elements != tokens * heads * width;
  bytes_.resize(static_cast<size_t>(elements) * size_);  // zeros
  if (!has_gaps_) return;
  write_all(0, static_cast<size_t>(elements), std::numeric_limits<double>::quiet_NaN());
  fill(0);
}

double Array::read(size_t place) const {
  const std::byte* from = bytes_at(place);
  if (dtype_ == DType::kFloat64) {
    double value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  if (dtype_ == DType::kFloat32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return from_bfloat16(value);
}

void Array::write(size_t place, double value) {
  std::byte* to = bytes_.data() + place * size_;
  if (dtype_ == DType::kFloat64) {
    std::memcpy(to, &value, sizeof value);
  } else if (dtype_ == DType::kFloat32) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const uint16_t narrow = to_bfloat16(static_cast<float>(value));
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

void Array::write_all(size_t begin, size_t count, double value) {
  if (count == 0) return;
  write(begin, value);
  const std::byte* first = bytes_at(begin);
  // Each copy doubles what is there.
  for (size_t done = 1; done < count; done *= 2) {
    std::memcpy(bytes_.data() + (begin + done) * size_, first, std::min(done, count - done) * size_);
  }
}

double Array::get(int64_t token, int64_t head, int64_t i) const { return read(place(token, head, i)); }
void Array::set(int64_t token, int64_t head, int64_t i, double value) { write(place(token, head, i), value); }

void Array::fill(double value) {
  if (!has_gaps_) return write_all(0, bytes_.size() / size_, value);
  for (int64_t t = 0; t < tokens_; ++t)
    for (int64_t h = 0; h < heads_; ++h) write_all(place(t, h, 0), static_cast<size_t>(width_), value);
}

bool Array::intact() const {
  if (!has_gaps_) return true;
  std::vector<bool> inside(bytes_.size() / size_);
  for (int64_t t = 0; t < tokens_; ++t)
    for (int64_t h = 0; h < heads_; ++h) {
      const auto row = inside.begin() + static_cast<int64_t>(place(t, h, 0));
      std::fill(row, row + width_, true);
    }
  for (size_t at = 0; at < inside.size(); ++at)
    if (!inside[at] && !std::isnan(read(at))) return false;
  return true;
}

uint64_t Array::bits(int64_t token, int64_t head, int64_t i) const {
  uint64_t out = 0;
  std::memcpy(&out, bytes_at(place(token, head, i)), size_);
  return out;
}

bool Array::same_rows(const Array& other, int64_t begin, int64_t length) const {
  const size_t bytes = static_cast<size_t>(width_) * size_;
  for (int64_t t = begin; t < begin + length; ++t)
    for (int64_t h = 0; h < heads_; ++h)
      if (std::memcmp(bytes_at(place(t, h, 0)), other.bytes_at(other.place(t, h, 0)), bytes) != 0) return false;
  return true;
}

}  // namespace fovea::kernels::testing_suite
