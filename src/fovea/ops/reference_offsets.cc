#include "fovea/ops/reference_offsets.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "fovea/ops/attention_layout.h"
#include "fovea/ops/reference_rows.h"

namespace fovea::ops {
namespace {

using kernels::OffsetRange;

// The index in the range of each pair's offset: [G or 1, 1, queries, keys] int64.
at::Tensor offset_index(const BlockView& view, const OffsetRange& range) {
  const auto& [call, group, block] = view;
  const at::Tensor queries =
      at::arange(block.first_query, block.first_query + block.queries, group.starts.options()).view({1, 1, -1, 1});
  const at::Tensor keys = key_positions(view).view({1, 1, 1, -1});
  return (keys - (queries + group.starts + range.first)).clamp_(0, range.count - 1);
}

at::Tensor gathered(const at::Tensor& by_offset, const at::Tensor& index) {
  return by_offset.gather(-1, index.expand({by_offset.size(0), by_offset.size(1), index.size(2), index.size(3)}));
}

at::Tensor scattered(const at::Tensor& by_pair, const at::Tensor& index, int64_t count) {
  return at::zeros({by_pair.size(0), by_pair.size(1), by_pair.size(2), count}, by_pair.options())
      .scatter_add(-1, index.expand(by_pair.sizes()), by_pair);
}

// [count, H or 1, D] -> [heads or 1, count, D] of the block.
at::Tensor rows_by_head(const BlockView& view, at::ScalarType type) {
  const at::Tensor& rows = view.call.terms.rows;
  const HeadRun& heads = view.block.heads;
  return (rows.size(1) == 1 ? rows : rows.narrow(1, heads.first, heads.count)).to(type).transpose(0, 1);
}

// [G or 1, heads, queries, keys].
at::Tensor by_head_scores(const BlockView& view, at::ScalarType type) {
  const at::Tensor index = offset_index(view, view.call.problem.offsets.by_head);
  const HeadRun& heads = view.block.heads;
  const at::Tensor own = view.call.terms.by_head.narrow(0, heads.first, heads.count).to(type);
  const at::Tensor terms = own.index_select(1, index.flatten());
  return terms.view({terms.size(0), index.size(0), index.size(2), index.size(3)}).transpose(0, 1);
}

}  // namespace

GroupTerms group_terms(const TokenCall& call, const ReferenceGroup& group) {
  const auto own = [&](const at::Tensor& x) { return x.defined() ? padded(x, group, group.q) : at::Tensor(); };
  return {own(call.terms.by_query), own(call.terms.queries)};
}

at::Tensor pairs_left_out(const BlockView& view) {
  const TokenCall& call = view.call;
  if (call.problem.offsets.by_head.count == 0 || adaptive_span(call.problem.spec) == nullptr) return {};
  return by_head_scores(view, call.terms.by_head.scalar_type()).eq(-std::numeric_limits<double>::infinity());
}

at::Tensor offset_scores(const OffsetView& view, at::ScalarType type) {
  const kernels::OffsetRanges& has = view.call.problem.offsets;
  at::Tensor sum;
  const auto add = [&](const at::Tensor& term) { sum = sum.defined() ? sum + term : term; };
  if (has.by_head.count > 0) add(by_head_scores(view, type));
  if (has.by_query.count > 0) {
    add(gathered(block_queries(view.terms.by_query, view.block).to(type), offset_index(view, has.by_query)));
  }
  if (has.product.count > 0) {
    const at::Tensor queries = block_queries(view.terms.queries, view.block).to(type);
    const at::Tensor products = at::matmul(queries, rows_by_head(view, type).transpose(-1, -2)) * view.call.scale;
    add(gathered(products, offset_index(view, has.product)));
  }
  return sum;
}

at::Tensor offset_slack(const OffsetView& view, const at::Tensor& added) {
  const double epsilon = std::numeric_limits<double>::epsilon();
  at::Tensor slack = added.abs().mul_(4 * epsilon);
  if (view.call.problem.offsets.product.count == 0) return slack;
  const at::Tensor queries = block_queries(view.terms.queries, view.block).to(at::kDouble);
  const at::Tensor rows = rows_by_head(view, at::kDouble);
  const double unit = static_cast<double>(queries.size(-1) + 2) * epsilon * std::abs(view.call.scale);
  const at::Tensor longest = at::linalg_vector_norm(rows, 2, -1).amax({-1}, false).view({1, -1, 1, 1});
  return slack + at::linalg_vector_norm(queries, 2, -1, true) * longest * unit;
}

at::Tensor sums_by_offset(const at::Tensor& weights, const BlockView& view) {
  const OffsetRange& range = view.call.problem.offsets.sums;
  return scattered(weights, offset_index(view, range), range.count);
}

at::Tensor at_offsets(const at::Tensor& by_offset, const BlockView& view) {
  return gathered(by_offset, offset_index(view, view.call.problem.offsets.sums));
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

void OffsetGradientSums::begin(const ReferenceGroup& group) {
  const auto own = [&](const at::Tensor& sums) {
    if (!sums.defined()) return at::Tensor();
    return at::zeros({group.count(), sums.size(1), group.q.length, sums.size(2)}, sums.options());
  };
  own_ = {own(sums_.by_query), own(sums_.queries)};
}

void OffsetGradientSums::add(const OffsetView& view, const at::Tensor& grad) {
  const kernels::OffsetRanges& has = call_.problem.offsets;
  if (sums_.by_head.defined()) add_by_head(view, grad);
  if (own_.by_query.defined()) {
    const at::Tensor own = scattered(grad, offset_index(view, has.by_query), has.by_query.count);
    block_queries(own_.by_query, view.block).copy_(own);
  }
  if (own_.queries.defined() || sums_.rows.defined()) add_products(view, grad);
}

void OffsetGradientSums::add_by_head(const BlockView& view, const at::Tensor& grad) {
  const OffsetRange& range = call_.problem.offsets.by_head;
  const HeadRun& heads = view.block.heads;
  const at::Tensor by_row = scattered(grad, offset_index(view, range), range.count);
  sums_.by_head.narrow(0, heads.first, heads.count).add_(by_row.sum(at::IntArrayRef{0, 2}));
}

void OffsetGradientSums::add_products(const OffsetView& view, const at::Tensor& grad) {
  const OffsetRange& range = call_.problem.offsets.product;
  const HeadRun& heads = view.block.heads;
  const at::Tensor by_offset = scattered(grad, offset_index(view, range), range.count);
  if (own_.queries.defined()) {
    const at::Tensor own = at::matmul(by_offset, rows_by_head(view, grad.scalar_type())).mul_(call_.scale);
    block_queries(own_.queries, view.block).copy_(own);
  }
  if (!sums_.rows.defined()) return;
  at::Tensor rows = at::matmul(by_offset.transpose(-1, -2), block_queries(view.terms.queries, view.block)).sum(0);
  const bool shared = sums_.rows.size(1) == 1;
  if (shared) rows = rows.sum(0, true);
  const at::Tensor own = shared ? sums_.rows : sums_.rows.narrow(1, heads.first, heads.count);
  own.add_(rows.transpose(0, 1), call_.scale);
}

void OffsetGradientSums::end(const ReferenceGroup& group) {
  if (own_.by_query.defined()) unpad(own_.by_query, group.q, sums_.by_query);
  if (own_.queries.defined()) unpad(own_.queries, group.q, sums_.queries);
  own_ = {};
}

TermTensors OffsetGradientSums::result() const {
  TermTensors result;
  for (const auto member : kTermTensors) {
    if ((sums_.*member).defined()) result.*member = (sums_.*member).to((call_.terms.*member).scalar_type());
  }
  return result;
}

}  // namespace fovea::ops
