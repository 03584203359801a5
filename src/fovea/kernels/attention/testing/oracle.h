#pragma once
#include <cstdint>
#include <vector>

#include "fovea/spec/attention_spec.h"

// Attention by its definitions: dense, in double, one head of one sequence, forward and analytic backward. Slow on
// purpose; every kernel is tested against it and it shares no code with any. Its rules:
//     a row without a candidate gives zeros, and no gradient;
//     of blocktopk, all blocks that equal the last chosen one are seen; the choice is a constant of the backward pass;
//     ties at the k-th score are all kept; the selection is a constant of the backward pass;
//     a row with a NaN among its candidates' scores is NaN, whatever is selected.
namespace fovea::kernels {

// Values by the offset of a key from a query, key position less query position, from `first` on; those before the first
// and behind the last count as these.
struct OracleOffsets {
  int64_t first = 0, count = 0;  // 0: none
  std::vector<double> values;
};
// The terms of a score of query i and key j with offset o: by_head[o] + by_query[i][o] + scale queries[i] . rows[o].
struct OracleTerms {
  OracleOffsets by_head, by_query, rows;  // [count], [num_queries, count], [count, head_dim]
  std::vector<double> queries;            // [num_queries, head_dim]
  OracleOffsets sums;                     // no term: asks for OracleOutput::sums
};

struct OracleInput {
  AttentionSpec spec;
  AttentionKind kind = AttentionKind::kSelf;
  int64_t num_queries = 0, num_keys = 0, head_dim = 0;
  std::vector<double> q, k, v;  // [num_queries or num_keys, head_dim]
  double scale = 1;
  double alpha = 1.5;          // what the transform learns
  uint64_t stream = 0;         // Row::stream
  std::vector<double> factor;  // [num_queries, num_keys] on the weights (dropout: 0 or 1 / (1 - rate)); empty: none
  OracleTerms terms = {};
  std::vector<bool> given = {};  // [num_queries, num_keys] pairs that come with the call; empty: the spec's alone
};

// Whether the key is a candidate of the query: the spec's pairs have it, and so have the pairs that come with the call.
bool oracle_candidate(const OracleInput& input, const Row& row, int64_t query, int64_t key);

// The index in `of` of the offset of key `key` from query `query`.
int64_t oracle_offset(const OracleInput& input, const OracleOffsets& of, int64_t query, int64_t key);

struct OracleOutput {
  std::vector<double> out;        // [num_queries, head_dim]
  std::vector<double> scores;     // [num_queries, num_keys], -infinity for pairs that are no candidates
  std::vector<double> weights;    // [num_queries, num_keys], before the factor; zero where dropped
  std::vector<double> sums = {};  // [num_queries, count]: weights times factor, by offset
};

struct OracleGradients {
  std::vector<double> q, k, v;                                               // as the inputs
  double alpha = 0;                                                          // of what the transform learns
  std::vector<double> by_head = {}, by_query = {}, queries = {}, rows = {};  // as the terms
};

OracleOutput oracle_forward(const OracleInput& input);
// grad_sums: of OracleOutput::sums; empty: zeros.
OracleGradients oracle_backward(const OracleInput& input, const OracleOutput& output,
                                const std::vector<double>& grad_out, const std::vector<double>& grad_sums = {});

// Weights of one row's scores by the transform alone; `alpha`: what it learns.
std::vector<double> oracle_transform(const Transform& transform, double alpha, const std::vector<double>& scores);

// The norm over z, the concatenated heads of one token.
struct OracleNormInput {
  Norm norm;
  std::vector<double> z, gain, gate, bias;  // [width] each; gate for gated-*norm, bias for *layernorm
};
struct OracleNormGradients {
  std::vector<double> z, gain, gate, bias;
};
constexpr double kNormEpsilon = 1e-8;  // inside the root
std::vector<double> oracle_norm(const OracleNormInput& input);
OracleNormGradients oracle_norm_backward(const OracleNormInput& input, const std::vector<double>& grad_out);

}  // namespace fovea::kernels
