#include "fovea/ops/reference_dropout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "fovea/kernels/attention/dropout.h"
#include "fovea/ops/counter_hash.h"

namespace fovea::ops {
namespace {

using kernels::Sequence;

at::Tensor drawn_on_cpu(const BlockView& view, const at::TensorOptions& options) {
  const auto& [call, group, block] = view;
  at::Tensor factors = at::zeros({group.count(), block.heads.count, block.queries, block.keys}, at::kFloat);
  float* row = factors.mutable_data_ptr<float>();
  const uint32_t threshold = kernels::dropout_threshold(call.problem.dropout);
  const float survivor = kernels::dropout_scale(call.problem.dropout);
  const at::Tensor positions = key_positions(view);
  const auto* keys = positions.const_data_ptr<int64_t>();
  for (const Sequence& s : group.members) {
    for (int64_t h = 0; h < block.heads.count; ++h) {
      for (int64_t r = 0; r < block.queries; ++r, row += block.keys) {
        const int64_t i = block.first_query + r, head = call.random.first_head + block.heads.first + h;
        if (i >= s.q_length) continue;
        const uint32_t key = kernels::dropout_row_key(call.random.dropout_key, head, s.q_begin + i);
        for (int64_t j = 0; j < block.keys; ++j) {
          row[j] = kernels::dropout_keeps(key, static_cast<uint32_t>(keys[j]), threshold) ? survivor : 0.0F;
        }
      }
    }
  }
  return factors.to(options);
}

}  // namespace

at::Tensor hashed_dropout_factors(const BlockView& view, const at::TensorOptions& options) {
  const auto& [call, group, block] = view;
  const at::TensorOptions integers = group.starts.options();
  const int64_t first_head = call.random.first_head + block.heads.first;
  const at::Tensor heads = at::arange(first_head, first_head + block.heads.count, integers).view({1, -1, 1, 1});
  const at::Tensor queries =
      at::arange(block.first_query, block.first_query + block.queries, integers).view({1, 1, -1, 1}) + group.q_begins;
  const at::Tensor seed = at::full({1}, static_cast<int64_t>(call.random.dropout_key), integers);
  const at::Tensor row_keys =
      hash_combine_of(hash_combine_of(seed, heads), queries).__rshift__(32).bitwise_and_(int64_t{0xffffffff});
  const at::Tensor drawn = hash32_of(row_keys, key_positions(view).view({1, 1, 1, -1}));
  const int64_t threshold = kernels::dropout_threshold(call.problem.dropout);
  return drawn.ge(threshold).to(options).mul_(static_cast<double>(kernels::dropout_scale(call.problem.dropout)));
}

at::Tensor dropout_factors(const BlockView& view, const at::TensorOptions& options) {
  return options.device().is_cpu() ? drawn_on_cpu(view, options) : hashed_dropout_factors(view, options);
}

}  // namespace fovea::ops
