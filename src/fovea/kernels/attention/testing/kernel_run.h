#pragma once
#include <string>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/testing/arrays.h"
#include "fovea/kernels/attention/testing/naive.h"
#include "fovea/kernels/attention/testing/oracle.h"

namespace fovea::kernels::testing_suite {

// The inputs of a call.
struct Inputs {
  Array q, k, v, grad_out;
  std::vector<float> alpha;  // [H]
  float scale = 1;
  RandomStream random;
  // Inputs of the terms by offset that the problem has.
  std::vector<float> by_head = {};               // [H, count]
  Array by_query = {}, queries = {}, rows = {};  // rows [count, H or 1, D]
  Array grad_sums = {};
  std::vector<int32_t> given = {};  // GivenLists, one list head after the other for each query
};

// The outputs of a call.
struct Results {
  Array out, grad_q, grad_k, grad_v;
  std::vector<float> grad_alpha;  // [H]
  bool saved_intact = true;       // nothing in `stats` and `kept` but the rows of each sequence was written
  Array sums = {}, grad_by_query = {}, grad_queries = {};
  std::vector<float> grad_by_head = {}, grad_rows = {};  // [H, count], [count, H, D]
};

// Runs forward, and backward if the problem asks for it. Outputs are filled with rubbish first.
Results run_kernel(const Kernel& kernel, const AttentionProblem& problem, const Inputs& inputs, Layout layout,
                   Executor& executor);
// Like run_kernel(), by the kernels to which the list gives the problem's sequences.
Results run_divided(const AttentionProblem& problem, const Inputs& inputs, Layout layout, Executor& executor);

// One head of one sequence as the oracle and the naive version take it.
OracleInput one_head(const AttentionProblem& problem, const Inputs& inputs, size_t sequence, int64_t head);
HeadCotangents cotangents_of(const AttentionProblem& problem, const Inputs& inputs, size_t sequence, int64_t head);

// The values of [rows, H, width] floats under one head, row after row.
std::vector<double> of_head(const std::vector<float>& all, const AttentionProblem& problem, int64_t head,
                            int64_t width);

// The problem in one line.
std::string describe(const AttentionProblem& problem);

}  // namespace fovea::kernels::testing_suite
