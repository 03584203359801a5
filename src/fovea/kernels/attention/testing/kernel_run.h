#pragma once
#include <string>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/testing/arrays.h"
#include "fovea/kernels/attention/testing/oracle.h"

namespace fovea::kernels::testing_suite {

// What a call reads.
struct Inputs {
  Array q, k, v, grad_out;
  std::vector<float> alpha;  // [H]
  float scale = 1;
  RandomStream random;
};

// What a call writes.
struct Results {
  Array out, grad_q, grad_k, grad_v;
  std::vector<float> grad_alpha;  // [H]
  bool saved_intact = true;       // nothing in `stats` and `kept` but the rows of each sequence was written
};

// Forward, and backward when the problem asks for it. What is written starts as rubbish.
Results run_kernel(const Kernel& kernel, const AttentionProblem& problem, const Inputs& inputs, Layout layout,
                   Executor& executor);
// The same by the kernels that the list gives its sequences to.
Results run_divided(const AttentionProblem& problem, const Inputs& inputs, Layout layout, Executor& executor);

// One head of one sequence as the oracle and the naive version take it.
OracleInput one_head(const AttentionProblem& problem, const Inputs& inputs, size_t sequence, int64_t head);
std::vector<double> grad_out_of(const AttentionProblem& problem, const Inputs& inputs, size_t sequence, int64_t head);

// The problem in one line.
std::string describe(const AttentionProblem& problem);

}  // namespace fovea::kernels::testing_suite
