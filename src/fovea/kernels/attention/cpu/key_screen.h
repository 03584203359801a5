#pragma once
#include <cstdint>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/simd/isa.h"

// KeyScreen: a cache's keys in 8 bits, kept from step to step of decoding. (screen.h is another thing: the screening of
// all pairs of one call.) A key k of a head is
//     k = c + step (u + r),   u whole numbers from -127 to 127,
// with a centre c that all keys of the head share, so that q . c is a constant of the row and changes no selection. A
// query is q = step_q (u_q + r_q) in the same way, without a centre. Then, in units of step step_q,
//     q . (k - c) = u_q . u + error,   |error| <= |u_q| |r| + |r_q| |u + r|,
// and the head's extents bound |u + r|, |r| and |k| / step for all its keys; the last is for the rounding of exact
// scores. A key whose upper bound is below the lower bounds of k other keys cannot be selected. All others are scored
// exactly, in the order of operations of cpu-rows.
namespace fovea::kernels {

constexpr int64_t kKeyScreenExtents = 3;

// Whether steps of a mechanism read a screen: a selection among all keys. The selected scores become weights in the
// lanes that they have among all keys, so that sums have the same bits; but entmax's search for its threshold counts
// the others, too.
bool reads_key_screen(const AttentionSpec& spec);

// Bytes of a row: u + 128 for each dimension, then 128.
constexpr int64_t key_screen_bytes(int64_t head_dim) { return (head_dim + 31) / 32 * 32; }

// Sums u_q . u of one query with many rows of one head.
struct KeyScreenProduct {
  const int8_t* query = nullptr;  // u_q, [bytes], zeros behind head_dim
  int64_t bytes = 0;              // of a row
  const uint8_t* rows = nullptr;  // of the head
  int64_t stride = 0;
  const int64_t* tokens = nullptr;  // [count] or null: the rows first, first + 1, ...
  int64_t first = 0, count = 0;
  int32_t* sums = nullptr;  // [count rounded up to 16]
};
using KeyScreenSums = void (*)(const KeyScreenProduct&);
void key_screen_sums_int8(const KeyScreenProduct& product);  // AVX-512 with VNNI, on x86 alone
// Returns the fastest one that isa() and the processor run.
KeyScreenSums key_screen_sums();

// Rows to copy into the screen of one head.
struct KeyScreenPack {
  const void* keys = nullptr;  // of the head
  int64_t stride = 0;          // in elements
  bool is_bf16 = false;
  int64_t head_dim = 0;
  const float* centre = nullptr;  // [head_dim]
  uint8_t* rows = nullptr;        // of the head
  int64_t row_stride = 0;
  float* steps = nullptr;    // of the head
  float* extents = nullptr;  // [kKeyScreenExtents] of the head, which grow
};

template <Isa kIsa>
struct KeyScreenRows {
  // Key row i goes to row tokens[i] of the screen, or to `first` + i if tokens is null.
  static void pack(const KeyScreenPack& to, const int64_t* tokens, int64_t first, int64_t count);
  static void sums(const KeyScreenProduct& product);
};

// Keys [count, H, D] to pack into a screen.
struct KeyScreenCall {
  Rows<const void> keys;
  DType dtype = DType::kFloat32;  // or kBFloat16
  int64_t num_heads = 0, head_dim = 0, count = 0;
  Rows<const float> centre;         // token_stride is not read
  const int64_t* tokens = nullptr;  // [count] or null: first, first + 1, ...
  int64_t first = 0;
  Rows<uint8_t> rows;
  Rows<float> steps;
  float* extents = nullptr;
};
void pack_key_screen(const KeyScreenCall& call, Executor& executor);

}  // namespace fovea::kernels
