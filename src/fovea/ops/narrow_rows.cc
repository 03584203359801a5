#include "fovea/ops/narrow_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/narrow_rows.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/executor.h"

namespace fovea::ops {
namespace {

using kernels::DType;
using kernels::NarrowType;

template <class T, class Data>
kernels::Rows<T> rows_of(Data* data, const at::Tensor& x) {
  return {data, x.stride(0), x.dim() < 2 ? 0 : x.stride(1)};
}

DType dtype_of(const at::Tensor& x) { return x.scalar_type() == at::kFloat ? DType::kFloat32 : DType::kBFloat16; }

bool is_wide(const at::Tensor& x) {
  return x.dim() == 3 && x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Throws an Error unless the rows are as narrow_rows.h says, for heads of `width`.
void check(const NarrowRows& rows, int64_t width, std::string_view name) {
  const auto& [data, steps] = rows;
  const bool is_int8 = data.scalar_type() == at::kChar;
  const bool has_steps = steps.defined() && steps.scalar_type() == at::kFloat && steps.device().is_cpu() &&
                         steps.sizes() == data.sizes().slice(0, 2);
  const bool fits = data.dim() == 3 && data.device().is_cpu() && data.size(2) == width && data.stride(2) == 1 &&
                    width <= kernels::kMaxNarrowHeadDim &&
                    (is_int8 ? has_steps : data.scalar_type() == at::kBFloat16 && !steps.defined());
  if (fits) return;
  throw Error(cat(name, ": got narrow rows ", data.scalar_type(), ' ', shape(data),
                  steps.defined() ? " with" : " without", " steps; expected on the CPU bfloat16 [tokens, H, ", width,
                  "] alone, or int8 with float32 steps "
                  "[tokens, H], of at most ",
                  kernels::kMaxNarrowHeadDim, " numbers a head"));
}

kernels::NarrowRows read(const NarrowRows& rows) {
  kernels::NarrowRows of{rows.steps.defined() ? NarrowType::kInt8 : NarrowType::kBFloat16,
                         rows_of<const void>(rows.data.const_data_ptr(), rows.data),
                         {}};
  if (rows.steps.defined()) of.steps = rows_of<const float>(rows.steps.const_data_ptr<float>(), rows.steps);
  return of;
}

const int64_t* numbers(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<int64_t>() : nullptr; }

}  // namespace

int64_t most_narrow_head_dim() { return kernels::kMaxNarrowHeadDim; }

void pack_narrow_rows(const at::Tensor& rows, const NarrowRows& to, const at::Tensor& places, int64_t first) {
  constexpr std::string_view kName = "pack_narrow_rows";
  check(to, rows.size(-1), kName);
  if (!is_wide(rows) || rows.size(1) != to.data.size(1)) {
    throw Error(cat(kName, ": got rows ", rows.scalar_type(), ' ', shape(rows), "; expected float32 or bfloat16 [T, ",
                    to.data.size(1), ", ", to.data.size(2), "] on the CPU"));
  }
  const at::Tensor plain = rows.stride(2) == 1 ? rows : rows.contiguous(),
                   list = places.defined() ? places.contiguous() : places;
  kernels::NarrowPack pack{.rows = rows_of<const void>(plain.const_data_ptr(), plain), .dtype = dtype_of(plain)};
  pack.count = plain.size(0), pack.num_heads = plain.size(1), pack.head_dim = plain.size(2);
  pack.tokens = numbers(list), pack.first = first;
  pack.to = {to.steps.defined() ? NarrowType::kInt8 : NarrowType::kBFloat16,
             rows_of<void>(to.data.mutable_data_ptr(), to.data),
             {}};
  if (to.steps.defined()) pack.to.steps = rows_of<float>(to.steps.mutable_data_ptr<float>(), to.steps);
  kernels::pack_narrow_rows(pack, torch_executor());
}

at::Tensor widened(const NarrowRows& rows, at::ScalarType type) {
  if (!rows.steps.defined()) return rows.data.to(type);
  return (rows.data.to(at::kFloat) * rows.steps.unsqueeze(-1)).to(type);
}

NarrowOutput attend_narrow_rows(const at::Tensor& q, const NarrowKeys& keys, double scale) {
  constexpr std::string_view kName = "attend_narrow_rows";
  check(keys.keys, q.size(-1), kName), check(keys.values, q.size(-1), kName);
  const int64_t heads = keys.keys.data.size(1);
  if (!is_wide(q) || heads == 0 || q.size(1) % heads != 0 || keys.values.data.sizes() != keys.keys.data.sizes() ||
      keys.begins.numel() != q.size(0) || keys.lengths.numel() != q.size(0)) {
    throw Error(cat(kName, ": got q ", q.scalar_type(), ' ', shape(q), " for ", keys.lengths.numel(),
                    " sequences of keys ", shape(keys.keys.data), " and values ", shape(keys.values.data),
                    "; expected float32 or bfloat16 [B, a multiple of the keys' heads, D] on the CPU"));
  }
  const at::Tensor plain = q.stride(2) == 1 ? q : q.contiguous(), begins = keys.begins.contiguous(),
                   lengths = keys.lengths.contiguous();
  at::Tensor out = at::empty(q.sizes(), q.options());
  kernels::NarrowStep step{.q = rows_of<const void>(plain.const_data_ptr(), plain),
                           .out = rows_of<void>(out.mutable_data_ptr(), out),
                           .dtype = dtype_of(q),
                           .keys = read(keys.keys),
                           .values = read(keys.values)};
  step.begins = numbers(begins), step.lengths = numbers(lengths);
  step.count = q.size(0), step.num_heads = q.size(1), step.head_dim = q.size(2), step.share = q.size(1) / heads;
  step.scale = static_cast<float>(scale);
  return {out, kernels::attend_narrow_rows(step, torch_executor())};
}

}  // namespace fovea::ops
