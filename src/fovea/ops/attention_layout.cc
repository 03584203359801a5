#include "fovea/ops/attention_layout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <string>

#include "fovea/base/strings.h"

namespace fovea::ops {
namespace {

using Element = kernels::TensorView::Element;

Element element_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Element::kFloat32;
    case at::kBFloat16:
      return Element::kBFloat16;
    case at::kHalf:
      return Element::kFloat16;
    case at::kDouble:
      return Element::kFloat64;
    case at::kInt:
      return Element::kInt32;
    case at::kLong:
      return Element::kInt64;
    default:
      return Element::kOther;
  }
}

std::string name_of(const void* tensor, kernels::TensorView::Trait trait) {
  using Trait = kernels::TensorView::Trait;
  const auto& x = *static_cast<const at::Tensor*>(tensor);
  if (trait == Trait::kDevice) return x.device().str();
  return trait == Trait::kType ? c10::toString(x.scalar_type()) : x.is_nested() ? "nested" : cat(x.layout());
}

}  // namespace

kernels::TensorView view_of(const at::Tensor& x) {
  kernels::TensorView view{
      .device = int64_t{static_cast<int>(x.device().type())} << 32 | static_cast<uint8_t>(x.device().index()),
      .on_cpu = x.device().is_cpu(),
      .dense = x.layout() == at::kStrided && !x.is_nested(),
      .tensor = &x,
      .name = &name_of};
  view.element = element_of(x.scalar_type());
  if (x.is_nested()) return view;
  view.sizes = {x.sizes().data(), x.sizes().size()};
  if (!view.dense) return view;
  view.strides = {x.strides().data(), x.strides().size()};
  if (view.on_cpu) view.data = x.const_data_ptr();
  return view;
}

std::optional<kernels::TensorView> view_of(const std::optional<at::Tensor>& x) {
  return x ? view_of_defined(*x) : std::nullopt;
}

std::optional<kernels::TensorView> view_of_defined(const at::Tensor& x) {
  return x.defined() ? std::optional(view_of(x)) : std::nullopt;
}

kernels::SequenceVectors vectors_of(const AttentionOptions& options) {
  return {view_of(options.q_offsets), view_of(options.k_offsets), view_of(options.k_begins),
          view_of(options.k_tokens),  view_of(options.q_lengths), view_of(options.k_lengths)};
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
  return kernels::read_sequences(kernels::sizes_of(view_of(x.q), view_of(x.k)), vectors_of(options));
}

}  // namespace fovea::ops
