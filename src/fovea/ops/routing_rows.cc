#include "fovea/ops/routing_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <span>
#include <vector>

#include "fovea/ops/executor_for.h"
#include "fovea/ops/recycled.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor int_tensor(const std::vector<int32_t>& values) {
  at::Tensor out = at::empty({static_cast<int64_t>(values.size())}, at::kInt);
  std::ranges::copy(values, out.mutable_data_ptr<int32_t>());
  return out;
}

std::span<const int32_t> numbers(const at::Tensor& x) {
  return {x.const_data_ptr<int32_t>(), static_cast<size_t>(x.numel())};
}

template <class T>
at::Tensor gather_on_cpu(const at::Tensor& given, const MemberRows& members, RowScale scale) {
  const at::Tensor x = with_whole_rows(given);
  at::Tensor out = recycled({members.rows.numel(), 1, x.size(2)}, x.options());
  kernels::gather_rows(token_rows_of<T>(x), row_members(members, scale), kernel_numbers<T>(out),
                       executor_for(out.numel()));
  return out;
}

template <class T>
at::Tensor sum_on_cpu(const at::Tensor& given, const MemberRows& members, RowScale scale) {
  const at::Tensor y = given.contiguous();
  at::Tensor out = recycled({members.tokens, members.heads, y.size(2)}, y.options());
  kernels::sum_rows(kernel_numbers<T>(y), row_members(members, scale), token_rows_of<T>(out), kernel_numbers<T>(out),
                    executor_for(out.numel()));
  return out;
}

// [T * H, 1, 1] in the type and on the device of x.
at::Tensor row_scales(const MemberRows& members, const at::Tensor& x) {
  const at::Tensor counts = members.starts.slice(0, 1) - members.starts.slice(0, 0, -1);
  return (counts.to(at::kDouble) + kernels::kCountBias).reciprocal().to(x.options()).view({-1, 1, 1});
}

at::Tensor gather(const at::Tensor& x, const MemberRows& members, RowScale scale) {
  if (has_row_loops(x)) {
    return with_row_type(x, [&]<class T>(T) { return gather_on_cpu<T>(x, members, scale); });
  }
  at::Tensor rows = x.reshape({-1, 1, x.size(2)});
  if (scale == RowScale::kAverage) rows = rows * row_scales(members, x);
  return rows.index_select(0, members.rows.to(x.device()));
}

at::Tensor sum(const at::Tensor& y, const MemberRows& members, RowScale scale) {
  if (has_row_loops(y)) {
    return with_row_type(y, [&]<class T>(T) { return sum_on_cpu<T>(y, members, scale); });
  }
  // Segments in the order of the members: no atomic additions, so the same sums each time.
  const at::Tensor ordered = y.squeeze(1).index_select(0, members.places.to(y.device()));
  const at::Tensor lengths = (members.starts.slice(0, 1) - members.starts.slice(0, 0, -1)).to(y.device(), at::kLong);
  at::Tensor rows = at::segment_reduce(ordered, "sum", lengths, {}, {}, 0, /*unsafe=*/true, 0).unsqueeze(1);
  if (scale == RowScale::kAverage) rows = rows * row_scales(members, y);
  return rows.view({members.tokens, members.heads, y.size(2)});
}

enum class Direction : int64_t { kGather, kSum };

// Linear, so the gradient of one direction is the other.
struct MoveRows : torch::autograd::Function<MoveRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const MemberRowsPointer& members,
                            Direction direction, RowScale scale) {
    context->saved_data["members"] = c10::IValue::make_capsule(members);
    context->saved_data["direction"] = static_cast<int64_t>(direction);
    context->saved_data["scale"] = static_cast<int64_t>(scale);
    return direction == Direction::kGather ? gather(x, *members, scale) : sum(x, *members, scale);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto members = c10::static_intrusive_pointer_cast<MemberRows>(context->saved_data["members"].toCapsule());
    const auto direction = static_cast<Direction>(context->saved_data["direction"].toInt());
    const auto scale = static_cast<RowScale>(context->saved_data["scale"].toInt());
    const Direction back = direction == Direction::kGather ? Direction::kSum : Direction::kGather;
    return {apply(grads[0], members, back, scale), {}, {}, {}};
  }
};

}  // namespace

MemberRows::MemberRows(const kernels::MemberLists& lists, int64_t token_count, int64_t head_count)
    : tokens(token_count), heads(head_count), rows(int_tensor(lists.rows)) {
  const kernels::RowPlaces found = kernels::places_of(lists.rows, tokens * heads);
  starts = int_tensor(found.starts);
  places = int_tensor(found.places);
}

kernels::RowMembers row_members(const MemberRows& members, RowScale scale) {
  return {numbers(members.rows), numbers(members.starts), numbers(members.places), scale == RowScale::kAverage};
}

double row_factor(const MemberRows& members, int64_t row, RowScale scale) {
  return kernels::row_factor(row_members(members, scale), row);
}

at::Tensor gather_rows(const at::Tensor& x, const MemberRowsPointer& members, RowScale scale) {
  return MoveRows::apply(x, members, Direction::kGather, scale);
}

at::Tensor sum_rows(const at::Tensor& y, const MemberRowsPointer& members, RowScale scale) {
  return MoveRows::apply(y, members, Direction::kSum, scale);
}

}  // namespace fovea::ops
