#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

// Keys or values of a cache on the CPU in fewer bits than the queries (kernels/attention/cpu/narrow_rows.h): bfloat16,
// or 8-bit integers with a step for each row of a head.
namespace fovea::ops {

struct NarrowRows {
  at::Tensor data;   // [tokens, H, D], bfloat16 or int8, numbers of a head side by side
  at::Tensor steps;  // [tokens, H] float32; undefined in bfloat16
};

// The greatest head_dim that steps over narrow rows take.
int64_t most_narrow_head_dim();

// Rounds rows [T, H, D], float32 or bfloat16, to the tokens places[0], places[1], ... of `to`, [T] int64, or to
// `first`, first + 1, ... without places.
void pack_narrow_rows(const at::Tensor& rows, const NarrowRows& to, const at::Tensor& places, int64_t first);

// The numbers that the rows stand for, in the type.
at::Tensor widened(const NarrowRows& rows, at::ScalarType type);

struct NarrowKeys {
  NarrowRows keys, values;
  at::Tensor begins, lengths;  // [B] int64: the tokens of each sequence
};
// Softmax attention of one query of each sequence to all its keys: q [B, H, D], float32 or bfloat16, H a multiple of
// the keys' heads.
struct NarrowOutput {
  at::Tensor out;  // [B, H, D]; zeros without keys
  // The sequences whose output holds a number that is not finite. There, a value may count whose weight is zero.
  std::vector<int64_t> not_finite;
};
NarrowOutput attend_narrow_rows(const at::Tensor& q, const NarrowKeys& keys, double scale);

}  // namespace fovea::ops
