#include "fovea/ops/attention_layout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <optional>

namespace fovea::ops {
namespace {

kernels::CallSizes sizes_of(const QueryKey& x) {
  if (x.q.dim() == 3) return {.packed = true, .queries = x.q.size(0), .keys = x.k.size(0)};
  return {.batch = x.q.size(0), .queries = x.q.size(2), .keys = x.k.size(2)};
}

kernels::SequenceVectors views_of(const AttentionOptions& options) {
  const auto view = [](const std::optional<at::Tensor>& x) { return x ? std::optional(view_of(*x)) : std::nullopt; };
  return {view(options.q_offsets), view(options.k_offsets), view(options.k_begins),
          view(options.k_tokens),  view(options.q_lengths), view(options.k_lengths)};
}

}  // namespace

kernels::TensorView view_of(const at::Tensor& x) {
  using Element = kernels::TensorView::Element;
  const at::ScalarType type = x.scalar_type();
  const Element element = type == at::kInt ? Element::kInt32 : type == at::kLong ? Element::kInt64 : Element::kOther;
  return {x.device().is_cpu() ? x.const_data_ptr() : nullptr,
          {x.sizes().data(), x.sizes().size()},
          {x.strides().data(), x.strides().size()},
          element,
          x.device().is_cpu(),
          c10::toString(type),
          x.device().str()};
}

at::Tensor token_rows(const at::Tensor& x) {
  const at::Tensor rows = x.dim() == 3 ? x : x.transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
  return rows.size(2) < 2 || rows.stride(2) == 1 ? rows : rows.contiguous();
}

at::Tensor from_token_rows(const at::Tensor& rows, const at::Tensor& like) {
  if (like.dim() == 3) return rows;
  return rows.view({like.size(0), like.size(2), like.size(1), rows.size(2)}).transpose(1, 2);
}

at::Tensor rows_like(const at::Tensor& rows, const at::TensorOptions& options) {
  const at::Tensor like = at::empty_like(rows, options);
  // If rows overlap, empty_like() may put another dimension innermost.
  return like.size(2) < 2 || like.stride(2) == 1 ? like : at::empty(like.sizes(), options);
}

std::vector<kernels::Sequence> sequences_of(const QueryKey& x, const AttentionOptions& options) {
  return kernels::read_sequences(sizes_of(x), views_of(options));
}

std::span<const int64_t> key_tokens_of(const QueryKey& x, const AttentionOptions& options) {
  return options.k_tokens ? kernels::read_key_tokens(sizes_of(x), views_of(options)) : std::span<const int64_t>();
}

}  // namespace fovea::ops
