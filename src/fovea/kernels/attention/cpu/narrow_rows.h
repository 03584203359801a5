#pragma once
#include <cstdint>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/simd/isa.h"

// Steps of decoding that read the keys and values of a cache as they lie: one query of each sequence, which sees all
// its keys, by softmax. A row x of a head is kept as it is, as bfloat16, or as
//     x = step u,   u whole numbers from -127 to 127,   step = greatest |x| / 127;
// a row with a number that is not finite has a step that is none, and so has what reads it.
namespace fovea::kernels {

constexpr int64_t kMaxNarrowHeadDim = 256;
// Keys of a part: its numbers stay in the second cache while the heads that share them read them. It depends on
// nothing, so that neither do the sums.
constexpr int64_t kNarrowPartKeys = 512;

enum class NarrowType : uint8_t { kFloat32, kBFloat16, kInt8 };

// [tokens, H, D] numbers; steps of int8 [tokens, H].
template <class Data, class Step>
struct NarrowArray {
  NarrowType type = NarrowType::kBFloat16;
  Rows<Data> data;  // strides in elements
  Rows<Step> steps;
};
using NarrowRows = NarrowArray<const void, const float>;

// Rows [count, H, D] to round to bfloat16 or int8, to tokens[0], tokens[1], ... of `to`, or to first, first + 1, ... if
// tokens is null.
struct NarrowPack {
  Rows<const void> rows;
  DType dtype = DType::kFloat32;  // or kBFloat16
  int64_t num_heads = 0, head_dim = 0, count = 0;
  const int64_t* tokens = nullptr;
  int64_t first = 0;
  NarrowArray<void, float> to = {};
};
void pack_narrow_rows(const NarrowPack& pack, Executor& executor);

// Query b is row queries[b] of q, or row b if `queries` is null; its keys are the tokens begins[b] ... begins[b] +
// lengths[b] - 1, or where `places` is given places[begins[b]] ... places[begins[b] + lengths[b] - 1].
struct NarrowStep {
  Rows<const void> q;
  Rows<void> out;
  DType dtype = DType::kFloat32;  // of q and out; or kBFloat16
  NarrowRows keys, values;
  const int64_t *begins = nullptr, *lengths = nullptr, *queries = nullptr;  // [count]
  const int64_t* places = nullptr;
  int64_t count = 0, num_heads = 0, head_dim = 0;
  int64_t share = 1;  // query heads that read the same head of keys and values
  float scale = 1;
};
// A query without keys gets zeros. Returns the b whose results hold a number that is not finite. There, a value may
// count whose weight is zero, so the caller computes them in another way.
[[nodiscard]] std::vector<int64_t> attend_narrow_rows(const NarrowStep& step, Executor& executor);

// A part of a sequence's keys for the query heads of one head of keys.
struct NarrowPart {
  int64_t row = 0, key_head = 0, begin = 0, count = 0;  // keys begin ... begin + count - 1 of the sequence
  // Written for each query head that reads the key head: the greatest score, the sum of e^(score - greatest), and, 16
  // floats from the beginning, the sum of the values with these weights [D rounded up to 16].
  float* results = nullptr;
};
constexpr int64_t narrow_result_floats(int64_t head_dim) { return (head_dim + 15) / 16 * 16 + 16; }

template <Isa kIsa>
struct NarrowRowsKernel {
  static void pack(const NarrowPack& pack, int64_t head);
  static void attend(const NarrowStep& step, const NarrowPart& part);
  // Joins the parts of a row's head, whose results lie `stride` floats apart, in their order. Returns whether the
  // result is finite.
  static bool join(const NarrowStep& step, int64_t row, int64_t head, const float* results, int64_t parts,
                   int64_t stride);
};

}  // namespace fovea::kernels
