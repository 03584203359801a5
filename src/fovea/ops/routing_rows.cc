#include "fovea/ops/routing_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <span>
#include <vector>

#include "fovea/ops/executor.h"
#include "fovea/ops/recycled.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kCountBias = 1e-2;

at::Tensor int_tensor(const std::vector<int32_t>& values) {
  at::Tensor out = at::empty({static_cast<int64_t>(values.size())}, at::kInt);
  std::ranges::copy(values, out.mutable_data_ptr<int32_t>());
  return out;
}

std::span<const int32_t> numbers(const at::Tensor& x) {
  return {x.const_data_ptr<int32_t>(), static_cast<size_t>(x.numel())};
}

// The scale of a row with this number of members, in the type of the sums.
template <class Sum>
Sum scale_of(int32_t members, RowScale scale) {
  return scale == RowScale::kNone ? Sum(1) : static_cast<Sum>(1 / (static_cast<double>(members) + kCountBias));
}

// Calls work(first, last) for pieces of [0, count).
template <class Work>
void in_pieces(int64_t count, const Work& work) {
  torch_executor().run((count + kRowsATask - 1) / kRowsATask, [&](int64_t piece, int) {
    work(piece * kRowsATask, std::min(count, (piece + 1) * kRowsATask));
  });
}

template <class T>
at::Tensor gather_on_cpu(const at::Tensor& given, const MemberRows& members, RowScale scale) {
  const at::Tensor x = given.stride(2) == 1 || given.size(2) < 2 ? given : given.contiguous();
  const int64_t width = x.size(2);
  const auto heads = static_cast<int32_t>(members.heads);
  at::Tensor out = recycled({members.rows.numel(), 1, width}, x.options());
  const auto rows = numbers(members.rows), starts = numbers(members.starts);
  const T* from = x.const_data_ptr<T>();
  T* to = out.mutable_data_ptr<T>();
  const int64_t token_stride = x.stride(0), head_stride = x.stride(1);
  in_pieces(members.rows.numel(), [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const int32_t row = rows[static_cast<size_t>(p)];
      const T* source = from + row / heads * token_stride + row % heads * head_stride;
      if (scale == RowScale::kNone) {
        std::copy_n(source, width, to + p * width);
        continue;
      }
      const auto r = static_cast<size_t>(row);
      const auto factor = scale_of<WideOf<T>>(starts[r + 1] - starts[r], scale);
      for (int64_t i = 0; i < width; ++i)
        to[p * width + i] = static_cast<T>(static_cast<WideOf<T>>(source[i]) * factor);
    }
  });
  return out;
}

template <class T>
at::Tensor sum_on_cpu(const at::Tensor& given, const MemberRows& members, RowScale scale) {
  using Sum = WideOf<T>;
  const at::Tensor y = given.contiguous();
  const int64_t width = y.size(2), rows = members.tokens * members.heads;
  at::Tensor out = recycled({members.tokens, members.heads, width}, y.options());
  const auto starts = numbers(members.starts), places = numbers(members.places);
  const T* from = y.const_data_ptr<T>();
  const auto source_of = [&](int64_t m) { return from + static_cast<int64_t>(places[static_cast<size_t>(m)]) * width; };
  T* to = out.mutable_data_ptr<T>();
  in_pieces(rows, [&](int64_t first, int64_t last) {
    std::vector<Sum> room(std::is_same_v<T, Sum> ? 0 : static_cast<size_t>(width));
    for (int64_t row = first; row < last; ++row) {
      const auto r = static_cast<size_t>(row);
      Sum* sum = nullptr;
      if constexpr (std::is_same_v<T, Sum>) {
        sum = to + row * width;
      } else {
        sum = room.data();
      }
      std::fill_n(sum, width, Sum(0));
      for (int64_t m = starts[r]; m < starts[r + 1]; ++m) {
        if (m + kMembersAhead < std::ssize(places)) prefetch(source_of(m + kMembersAhead), width);
        const T* source = source_of(m);
        for (int64_t i = 0; i < width; ++i) sum[i] += static_cast<Sum>(source[i]);
      }
      const auto factor = scale_of<Sum>(starts[r + 1] - starts[r], scale);
      for (int64_t i = 0; i < width; ++i) to[row * width + i] = static_cast<T>(sum[i] * factor);
    }
  });
  return out;
}

// [T * H, 1, 1] in the type and on the device of x.
at::Tensor row_scales(const MemberRows& members, const at::Tensor& x) {
  const at::Tensor counts = members.starts.slice(0, 1) - members.starts.slice(0, 0, -1);
  return (counts.to(at::kDouble) + kCountBias).reciprocal().to(x.options()).view({-1, 1, 1});
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

double row_factor(const MemberRows& members, int64_t row, RowScale scale) {
  const auto* starts = members.starts.const_data_ptr<int32_t>() + row;
  return scale_of<double>(starts[1] - starts[0], scale);
}

at::Tensor gather_rows(const at::Tensor& x, const MemberRowsPointer& members, RowScale scale) {
  return MoveRows::apply(x, members, Direction::kGather, scale);
}

at::Tensor sum_rows(const at::Tensor& y, const MemberRowsPointer& members, RowScale scale) {
  return MoveRows::apply(y, members, Direction::kSum, scale);
}

}  // namespace fovea::ops
