#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fovea/kernels/attention/attention.h"

// Arrays of tests in any type and layout.
namespace fovea::kernels::testing_suite {

enum class Layout : uint8_t {
  kPacked,     // [tokens, H, D]
  kPadded,     // gaps behind heads and tokens, the first element at an odd place
  kHeadMajor,  // [H, tokens, D]
};

double round_to(DType dtype, double value);

// A [tokens, H, D] array. The numbers between the rows are NaN, and intact() says whether they still are.
class Array {
 public:
  Array() = default;
  Array(DType dtype, Layout layout, int64_t tokens, int64_t heads, int64_t width);

  double get(int64_t token, int64_t head, int64_t i) const;
  void set(int64_t token, int64_t head, int64_t i, double value);
  void fill(double value);
  bool intact() const;
  // The bits of one element, widened.
  uint64_t bits(int64_t token, int64_t head, int64_t i) const;
  // Whether the rows of `length` tokens from `begin` on, under all heads, hold the same bits as those of another array
  // of these sizes and this type.
  bool same_rows(const Array& other, int64_t begin, int64_t length) const;

  template <class T>
  Rows<T> rows() const {
    return {const_cast<std::byte*>(bytes_.data()) + start_ * size_, token_stride_, head_stride_};
  }
  int64_t tokens() const { return tokens_; }
  int64_t heads() const { return heads_; }
  int64_t width() const { return width_; }

 private:
  size_t place(int64_t token, int64_t head, int64_t i) const {
    return static_cast<size_t>(start_ + token * token_stride_ + head * head_stride_ + i);
  }
  const std::byte* bytes_at(size_t place) const { return bytes_.data() + place * size_; }
  double read(size_t place) const;
  void write(size_t place, double value);
  void write_all(size_t begin, size_t count, double value);

  DType dtype_ = DType::kFloat32;
  int64_t tokens_ = 0, heads_ = 0, width_ = 0, start_ = 0, token_stride_ = 0, head_stride_ = 0;
  size_t size_ = 4;        // bytes of an element
  bool has_gaps_ = false;  // whether anything lies between the rows
  std::vector<std::byte> bytes_;
};

}  // namespace fovea::kernels::testing_suite
