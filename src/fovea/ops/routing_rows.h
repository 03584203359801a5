#pragma once
#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <type_traits>

#include "fovea/kernels/routing/members.h"
#include "fovea/kernels/routing/rows.h"

// Rows of tokens in the order of cluster members, and back: routed attention reads q, k and v through gather_rows() and
// returns through sum_rows(). A row is token * H + head.
namespace fovea::ops {

// Whether this folder has loops over the tensor's rows; others go through ATen's operators.
inline bool has_row_loops(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return x.is_cpu() && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16);
}
// work(T()) for the type of such a tensor.
template <class Work>
auto with_row_type(const at::Tensor& x, const Work& work) {
  if (x.scalar_type() == at::kDouble) return work(double());
  if (x.scalar_type() == at::kFloat) return work(float());
  return work(at::BFloat16());
}

// The numbers of a tensor as kernels/routing/rows.h takes them: those of bfloat16 by their bits.
template <class T>
using KernelNumber = std::conditional_t<std::is_same_v<T, at::BFloat16>, uint16_t, T>;
template <class T>
KernelNumber<T>* kernel_numbers(const at::Tensor& x) {
  return reinterpret_cast<KernelNumber<T>*>(const_cast<T*>(x.const_data_ptr<T>()));
}
template <class T>
kernels::TokenRows<KernelNumber<T>> token_rows_of(const at::Tensor& x) {
  return {kernel_numbers<T>(x), x.stride(0), x.stride(1), x.size(0), x.size(1), x.size(2)};
}
// x, or a copy where a row's numbers do not follow one another.
inline at::Tensor with_whole_rows(const at::Tensor& x) {
  return x.stride(2) == 1 || x.size(2) < 2 ? x : x.contiguous();
}

struct MemberRows : torch::CustomClassHolder {
  MemberRows(const kernels::MemberLists& lists, int64_t token_count, int64_t head_count);
  int64_t tokens, heads;
  at::Tensor rows;            // [N] int32 on the CPU: the row of each member, all lists one after the other
  at::Tensor starts, places;  // [T * H + 1] and [N] int32: the members of each row, kernels::RowPlaces
};
using MemberRowsPointer = c10::intrusive_ptr<MemberRows>;

// kAverage divides what belongs to a row by the number of its members + 0.01, as the published code does.
enum class RowScale : uint8_t { kNone, kAverage };

kernels::RowMembers row_members(const MemberRows& members, RowScale scale);
// The factor of each member of the row in sum_rows().
double row_factor(const MemberRows& members, int64_t row, RowScale scale);

// x [T, H, D] -> [N, 1, D], the row of each member, in x's type. Differentiable any number of times, as is sum_rows().
at::Tensor gather_rows(const at::Tensor& x, const MemberRowsPointer& members, RowScale scale = RowScale::kNone);
// The transposed map: y [N, 1, D] -> [T, H, D], the sum of each row's members in their order; zeros without any.
at::Tensor sum_rows(const at::Tensor& y, const MemberRowsPointer& members, RowScale scale);

}  // namespace fovea::ops
