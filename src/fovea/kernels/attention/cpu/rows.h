#pragma once
#include <span>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/bf16_products.h"
#include "fovea/kernels/attention/cpu/candidates.h"
#include "fovea/kernels/attention/cpu/offsets.h"
#include "fovea/kernels/attention/cpu/parts.h"
#include "fovea/kernels/simd/isa.h"

// "cpu-rows": score rows held whole, a block of queries at a time, so that any mechanism is a function of its rows.
// Meant for the lengths of sentences, where the rows stay in the first cache; right at any length.
namespace fovea::kernels {

constexpr int64_t kMaxRowsHeadDim = 1024;

// Some groups of queries of one sequence under one head. Backward: the parts of a sequence and a head of its keys
// belong to all query heads that read this head, and follow one another. The tasks of a chain (parts.h) have similar
// shares of the queries, each under another head.
struct RowsTask {
  int64_t sequence = 0, head = 0;
  int64_t group_begin = 0, group_end = 0;
  int64_t part = 0, parts = 1;           // backward: which share of the pairs this is
  int64_t link = 0;                      // backward: place in its chain
  int64_t keys_begin = 0, keys_end = 0;  // where parts > 1: the keys of the chain's groups lie in it
  bool begins_join() const { return parts > 1 && part == 0; }
};

struct RowsCall {
  const AttentionProblem* problem = nullptr;
  const CandidateTables* tables = nullptr;
  std::span<const RowsTask> tasks = {};
  std::span<const int64_t> few = {};  // forward: sequences that are in no task, of a few queries that see every key
  std::span<const int64_t> screened = {};  // forward: sequences that are in no task either, of one query, with a screen
  const AttentionForward* forward = nullptr;
  const AttentionBackward* backward = nullptr;
  const Bf16Products* bf16 = nullptr;
  PartialSums sums = {};  // backward where parts > 1: of dK, then of dV, of a chain's keys, padded head_dim a key
  double* grad_alpha = nullptr;               // of each task
  const SharedTerms* shared_terms = nullptr;  // backward
};

template <Isa kIsa>
struct RowsKernel {
  static int64_t lanes();
  static int64_t forward_scratch(const RowsCall& call, const RowsTask& task);
  static int64_t backward_scratch(const RowsCall& call, const RowsTask& task);
  static void forward(const RowsCall& call, int64_t task, float* scratch);
  // Sequences few[begin] ... few[end - 1].
  static int64_t few_scratch(const RowsCall& call);
  static void forward_few(const RowsCall& call, int64_t begin, int64_t end, float* scratch);
  static int64_t screened_scratch(const RowsCall& call);
  // One head of the keys of sequence screened[index].
  static void forward_screened(const RowsCall& call, int64_t index, int64_t key_head, float* scratch);
  static void backward(const RowsCall& call, int64_t task, float* scratch);
  // Adds up the sums of the chains of `task` (part 0) and of those after it into dK and dV.
  static void join(const RowsCall& call, int64_t task);
};

extern const Kernel kRowsKernel;

}  // namespace fovea::kernels
