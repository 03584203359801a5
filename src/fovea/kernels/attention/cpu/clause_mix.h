#pragma once
#include <cstdint>
#include <vector>

#include "fovea/base/executor.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/simd/isa.h"

// Attention mixed from all keys and from the keys of a query's clause at some levels (spec/attention_spec.h), softmax
// in each part: the weights of the parts are mixed before one product with the values. Let y_0 be the output of all
// keys and y_l that of the clauses of level l, which lie within those of level l - 1:
//     out = (1 - p_1) y_0 + p_1 ((1 - p_2) y_1 + p_2 (... + p_L y_L))
// If a clause is the whole sequence, or p is 0, its part changes no bit.
namespace fovea::kernels {

inline constexpr int64_t kMostClauseLevels = 6;

struct ClauseMixShape {
  int64_t heads = 0, head_dim = 0, levels = 0;
  std::vector<int64_t> offsets = {};  // [B + 1], of the sequences
  std::vector<int32_t> begins = {},
                       ends = {};  // [levels, T]: the clause of token t, in tokens from the batch's beginning
  float scale = 1;
};

struct ClauseMixForward {
  Rows<const void> q, k, v;  // float
  Rows<void> out;
  const float* p = nullptr;  // [levels, heads]
};

struct ClauseMixBackward {
  Rows<const void> q, k, v, grad_out;
  Rows<void> grad_q, grad_k, grad_v;  // written
  const float* p = nullptr;
  float* grad_p = nullptr;  // [levels, heads], written
};

void clause_mix(const ClauseMixShape& shape, const ClauseMixForward& job, Executor& executor);
void clause_mix(const ClauseMixShape& shape, const ClauseMixBackward& job, Executor& executor);

// A sequence under one head.
struct ClauseMixTask {
  int64_t begin = 0, length = 0, head = 0;
};

// The kernel at one instruction-set level.
template <Isa kLevel>
struct ClauseMixKernel {
  static int64_t scratch(const ClauseMixShape& shape, int64_t length, bool backward);  // floats
  static void run(const ClauseMixShape& shape, const ClauseMixForward& job, const ClauseMixTask& task, float* scratch);
  // `grad_p` [levels] gets the task's own sums.
  static void run(const ClauseMixShape& shape, const ClauseMixBackward& job, const ClauseMixTask& task, float* scratch,
                  double* grad_p);
};

}  // namespace fovea::kernels
