#include "fovea/ops/reference_offsets.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fovea/ops/attention_layout.h"
#include "fovea/ops/reference_rows.h"

namespace fovea::ops {
namespace {

using kernels::OffsetRange;
using kernels::Sequence;

// The index in the range of each pair's offset: [G or 1, 1, N_q, N_k] int64.
at::Tensor offset_index(const ReferenceGroup& group, const OffsetRange& range, at::Device device) {
  std::vector<int64_t> before;  // query 0 of a sequence stands there
  for (const Sequence& s : group.members) before.push_back(s.k_length - s.q_length);
  if (std::ranges::all_of(before, [&](int64_t x) { return x == before.front(); })) before.resize(1);
  const at::TensorOptions options = at::TensorOptions(at::kLong).device(device);
  const at::Tensor queries = at::arange(group.q.length, options).view({1, 1, -1, 1});
  const at::Tensor keys = at::arange(group.k.length, options).view({1, 1, 1, -1});
  const at::Tensor first = at::tensor(before, at::kLong).to(device).view({-1, 1, 1, 1});
  return (keys - queries - first - range.first).clamp(0, range.count - 1);
}

at::Tensor gathered(const at::Tensor& by_offset, const at::Tensor& index) {
  return by_offset.gather(-1, index.expand({by_offset.size(0), by_offset.size(1), index.size(2), index.size(3)}));
}

at::Tensor scattered(const at::Tensor& by_pair, const at::Tensor& index, int64_t count) {
  return at::zeros({by_pair.size(0), by_pair.size(1), by_pair.size(2), count}, by_pair.options())
      .scatter_add(-1, index.expand(by_pair.sizes()), by_pair);
}

// [count, H or 1, D] -> [H or 1, count, D].
at::Tensor rows_by_head(const at::Tensor& rows, at::ScalarType type) { return rows.to(type).transpose(0, 1); }

// [G or 1, H, N_q, N_k].
at::Tensor by_head_scores(const TokenCall& call, const ReferenceGroup& group, at::ScalarType type) {
  const at::Tensor index = offset_index(group, call.problem.offsets.by_head, call.q.device());
  const at::Tensor terms = call.terms.by_head.to(type).index_select(1, index.flatten());
  return terms.view({terms.size(0), index.size(0), index.size(2), index.size(3)}).transpose(0, 1);
}

}  // namespace

at::Tensor ramp_scores(const TokenCall& call, const ReferenceGroup& group, at::ScalarType type) {
  return kernels::adds_by_head_last(call.problem) ? by_head_scores(call, group, type) : at::Tensor();
}

at::Tensor pairs_left_out(const TokenCall& call, const ReferenceGroup& group) {
  if (call.problem.offsets.by_head.count == 0 || adaptive_span(call.problem.spec) == nullptr) return {};
  return by_head_scores(call, group, call.terms.by_head.scalar_type()).eq(-std::numeric_limits<double>::infinity());
}

at::Tensor offset_scores(const TokenCall& call, const ReferenceGroup& group, at::ScalarType type) {
  const kernels::OffsetRanges& has = call.problem.offsets;
  const at::Device device = call.q.device();
  at::Tensor sum;
  const auto add = [&](const at::Tensor& term) { sum = sum.defined() ? sum + term : term; };
  if (has.by_head.count > 0 && !kernels::adds_by_head_last(call.problem)) add(by_head_scores(call, group, type));
  if (has.by_query.count > 0) {
    const at::Tensor terms = padded(call.terms.by_query, group, group.q).to(type);
    add(gathered(terms, offset_index(group, has.by_query, device)));
  }
  if (has.product.count > 0) {
    const at::Tensor queries = padded(call.terms.queries, group, group.q).to(type);
    const at::Tensor rows = rows_by_head(call.terms.rows, type);
    const at::Tensor products = at::matmul(queries, rows.transpose(-1, -2)) * call.scale;
    add(gathered(products, offset_index(group, has.product, device)));
  }
  return sum;
}

at::Tensor offset_slack(const TokenCall& call, const ReferenceGroup& group) {
  const double epsilon = std::numeric_limits<double>::epsilon();
  const at::Tensor added = offset_scores(call, group, at::kDouble);
  if (!added.defined()) return {};
  at::Tensor slack = added.abs() * (4 * epsilon);
  if (call.problem.offsets.product.count == 0) return slack;
  const at::Tensor queries = padded(call.terms.queries, group, group.q).to(at::kDouble);
  const at::Tensor rows = rows_by_head(call.terms.rows, at::kDouble);
  const double unit = static_cast<double>(queries.size(-1) + 2) * epsilon * std::abs(call.scale);
  const at::Tensor longest = at::linalg_vector_norm(rows, 2, -1).amax({-1}, false).view({1, -1, 1, 1});
  return slack + at::linalg_vector_norm(queries, 2, -1, true) * longest * unit;
}

at::Tensor sums_by_offset(const at::Tensor& weights, const ReferenceGroup& group,
                          const kernels::AttentionProblem& problem) {
  const OffsetRange& range = problem.offsets.sums;
  return scattered(weights, offset_index(group, range, weights.device()), range.count);
}

at::Tensor at_offsets(const at::Tensor& by_offset, const ReferenceGroup& group,
                      const kernels::AttentionProblem& problem) {
  return gathered(by_offset, offset_index(group, problem.offsets.sums, by_offset.device()));
}

OffsetGradientSums::OffsetGradientSums(const TokenCall& call, const WantedTerms& wanted) : call_(call) {
  const auto zeros = [](const at::Tensor& like) {
    return at::zeros(like.sizes(), like.options().dtype(compute_type(like)));
  };
  for (size_t i = 0; i < kTermTensors.size(); ++i) {
    const at::Tensor& term = call.terms.*kTermTensors[i];
    if (wanted[i] && term.defined()) sums_.*kTermTensors[i] = zeros(term);
  }
  const at::Tensor& queries = call.terms.queries;
  if (sums_.queries.defined()) {
    sums_.queries = rows_like(queries, queries.options().dtype(compute_type(queries))).zero_();
  }
}

void OffsetGradientSums::add(const ReferenceGroup& group, const at::Tensor& grad) {
  const kernels::OffsetRanges& has = call_.problem.offsets;
  const at::Device device = grad.device();
  if (sums_.by_head.defined()) {
    const at::Tensor index = offset_index(group, has.by_head, device);
    const at::Tensor all = index.expand({grad.size(0), 1, grad.size(2), grad.size(3)}).flatten();
    sums_.by_head.index_add_(1, all, grad.transpose(0, 1).flatten(1));
  }
  if (sums_.by_query.defined()) {
    const OffsetRange& range = has.by_query;
    unpad(scattered(grad, offset_index(group, range, device), range.count), group.q, sums_.by_query);
  }
  if (!sums_.queries.defined() && !sums_.rows.defined()) return;
  const at::Tensor by_offset = scattered(grad, offset_index(group, has.product, device), has.product.count);
  if (sums_.queries.defined()) {
    const at::Tensor rows = rows_by_head(call_.terms.rows, grad.scalar_type());
    unpad(at::matmul(by_offset, rows).mul_(call_.scale), group.q, sums_.queries);
  }
  if (!sums_.rows.defined()) return;
  at::Tensor rows = at::matmul(by_offset.transpose(-1, -2), padded(call_.terms.queries, group, group.q)).sum(0);
  if (sums_.rows.size(1) == 1) rows = rows.sum(0, true);
  sums_.rows.add_(rows.transpose(0, 1), call_.scale);
}

TermTensors OffsetGradientSums::result() const {
  TermTensors result;
  for (const auto member : kTermTensors) {
    if ((sums_.*member).defined()) result.*member = (sums_.*member).to((call_.terms.*member).scalar_type());
  }
  return result;
}

}  // namespace fovea::ops
