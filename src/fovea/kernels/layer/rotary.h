#pragma once
#include <cstdint>
#include <memory>

#include "fovea/base/executor.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/spec/rotary_angles.h"

// Rotary position embedding (Su et al. 2021): in every head the pair (i, i + D / 2) turns by its token's angle
//   position * frequency of pair i, i < D / 2, for D = head_dim, an even number.
// T is float, or uint16_t for the bits of bfloat16; all but the angles is computed in float.
namespace fovea::kernels {

// For each position from 0 on, cosines [D / 2] of its angles, then sines [D / 2], both times the scale; computed in
// double, then rounded.
struct RotaryTable {
  std::unique_ptr<float[]> values;  // [positions, D]
  int64_t positions = 0;
};
// The table of `positions` positions or more, kept for later calls.
std::shared_ptr<const RotaryTable> rotary_table(const RotaryAngles& angles, int64_t positions);

enum class Turn : uint8_t { kForward, kBack };  // kBack: by the negative angles, the transpose

template <class T>
struct RotaryPass {
  Rows<const T> x;                     // [tokens, heads, head_dim]
  Rows<T> out;                         // may be x itself
  const int64_t* positions = nullptr;  // [tokens], below those of the table
  const float* angles = nullptr;       // the table's values
  int64_t tokens = 0, heads = 0, head_dim = 0;
  Turn turn = Turn::kForward;
};

void rotate(const RotaryPass<float>& job, Executor& executor);
void rotate(const RotaryPass<uint16_t>& job, Executor& executor);

}  // namespace fovea::kernels
