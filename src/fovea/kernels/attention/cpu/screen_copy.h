#pragma once
#include <cstdint>
#include <vector>

#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/attention.h"

// Copies of heads as floats, with rows side by side and padded with zeros to a multiple of 16. They lie within few
// pages whatever the caller's strides, and no code after this depends on types, strides or odd sizes.
namespace fovea::kernels {

constexpr int64_t padded_width(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

// Whether rows are few enough to stay in a core's own cache, so that asking for them ahead brings nothing.
constexpr bool is_near(int64_t rows, int64_t width) { return rows * width <= int64_t{1} << 16; }

// One head of an array.
template <class T>
struct OneHead {
  Rows<T> rows;
  DType dtype;
  int64_t head, head_dim;
  OneHead(const Rows<T>& of, const AttentionProblem& problem, int64_t which)
      : rows(of), dtype(problem.dtype), head(which), head_dim(problem.head_dim) {}
  int64_t at(int64_t token) const { return token * rows.token_stride + head * rows.head_stride; }
};

// Read or write a token's row. `out` is padded to padded_width(); x is multiplied by `factor`.
void read_row(const OneHead<const void>& from, int64_t token, float* out);
void write_row(const OneHead<void>& to, int64_t token, const float* x, float factor);

// One head of one sequence.
struct Piece {
  const Sequence* sequence = nullptr;
  int64_t head = 0;
  bool operator==(const Piece&) const = default;
};
// Groups of pieces that are worked on together: enough pieces to share among threads, few enough to bound the memory of
// their copies. The heads that read the same keys stay together, one after the other.
std::vector<std::vector<Piece>> piece_groups(const AttentionProblem& problem);
// The pieces begin ... end - 1 of a group, which all read the same head of the keys.
struct KeyPieces {
  Piece keys;  // head: of k and v
  size_t begin = 0, end = 0;
};
std::vector<KeyPieces> key_pieces(const AttentionProblem& problem, const std::vector<Piece>& group);

// The rows of one head of one sequence, [count, width]: a copy, or the caller's if few already lie this way.
class HeadCopy {
 public:
  void read(const OneHead<const void>& from, int64_t first, int64_t count);
  const float* get() const { return rows_; }
  const float* row(int64_t index, int64_t width) const { return rows_ + index * width; }

 private:
  const float* rows_ = nullptr;
  GrowingArray<float> copy_;
};

}  // namespace fovea::kernels
