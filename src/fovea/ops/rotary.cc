#include "fovea/ops/rotary.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>

#include "fovea/kernels/layer/rotary.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"
#include "fovea/ops/rotary_composite.h"

namespace fovea::ops {
namespace {

using kernels::Turn;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The angles of the tokens: positions [T], contiguous, each a row of the table.
struct Angles {
  at::Tensor positions;
  std::shared_ptr<const kernels::RotaryTable> table;
};

int64_t longest(const at::Tensor& positions) {
  const int64_t* begin = elements<int64_t>(positions);
  return positions.numel() == 0 ? 0 : *std::max_element(begin, begin + positions.numel());
}

Angles angles_of(const at::Tensor& positions, int64_t head_dim, double base) {
  return {positions, kernels::rotary_table(head_dim, base, longest(positions) + 1)};
}

template <class E>
kernels::Rows<E> head_rows(const at::Tensor& x) {
  return {elements<std::remove_const_t<E>>(x), x.stride(0), x.stride(1)};
}

// x, out [T, H, D], elements of a head side by side; out may be x.
void turn(const at::Tensor& x, const at::Tensor& out, const Angles& angles, Turn direction) {
  with_element(x, [&]<class T>(T) {
    kernels::RotaryPass<T> job{.x = head_rows<const T>(x), .out = head_rows<T>(out)};
    job.positions = elements<int64_t>(angles.positions), job.angles = angles.table->values.get();
    job.tokens = x.size(0), job.heads = x.size(1), job.head_dim = x.size(2);
    job.turn = direction;
    kernels::rotate(job, torch_executor());
  });
}

at::Tensor with_plain_heads(const at::Tensor& x) { return x.stride(2) == 1 ? x : x.contiguous(); }

at::Tensor turned(const at::Tensor& x, const Angles& angles, Turn direction) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  turn(x, out, angles, direction);
  return out;
}

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& positions, double base) {
    context->save_for_backward({positions});
    context->saved_data["base"] = base;
    return turned(x, angles_of(positions, x.size(2), base), Turn::kForward);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("rotary");
    const at::Tensor grad = with_plain_heads(grads[0]);
    const Angles angles =
        angles_of(context->get_saved_variables()[0], grad.size(2), context->saved_data["base"].toDouble());
    return {turned(grad, angles, Turn::kBack), {}, {}};
  }
};

// q, k and v within stacked [T, H + 2 K, D].
RotaryHeads parts_of(const at::Tensor& stacked, int64_t heads) {
  const int64_t others = (stacked.size(1) - heads) / 2;
  return {stacked.narrow(1, 0, heads), stacked.narrow(1, heads, others), stacked.narrow(1, heads + others, others)};
}

// Turns q and k in place; the results are tensors that autograd takes for new ones, not for views of stacked.
RotaryHeads turn_in_place(const at::Tensor& stacked, int64_t heads, const Angles& angles) {
  const at::AutoDispatchBelowADInplaceOrView below;
  RotaryHeads parts = parts_of(stacked, heads);
  const at::Tensor turning = stacked.narrow(1, 0, heads + parts.k.size(1));
  turn(turning, turning, angles, Turn::kForward);
  // An operator that saved stacked for its backward then throws instead of reading the changed numbers.
  stacked.unsafeGetTensorImpl()->bump_version();
  return parts;
}

struct RotaryHeadsFunction : torch::autograd::Function<RotaryHeadsFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& stacked, int64_t heads,
                               const at::Tensor& positions, double base) {
    context->save_for_backward({positions});
    context->saved_data["base"] = base;
    const RotaryHeads parts = turn_in_place(stacked, heads, angles_of(positions, stacked.size(2), base));
    return {parts.q, parts.k, parts.v};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("rotary_heads");
    const at::Tensor q = with_plain_heads(grads[0]), k = with_plain_heads(grads[1]);
    const int64_t heads = q.size(1);
    const at::Tensor result = at::empty({q.size(0), heads + 2 * k.size(1), q.size(2)}, q.options());
    const RotaryHeads to = parts_of(result, heads);
    const Angles angles =
        angles_of(context->get_saved_variables()[0], q.size(2), context->saved_data["base"].toDouble());
    turn(q, to.q, angles, Turn::kBack);
    turn(k, to.k, angles, Turn::kBack);
    to.v.copy_(grads[2]);
    return {result, {}, {}, {}};
  }
};

void check(const at::Tensor& x, const at::Tensor& positions, double base, std::string_view name) {
  if (x.dim() != 3 || x.size(2) % 2 != 0) {
    throw Error(cat(name, ": got ", shape(x), "; expected [tokens, heads, head_dim] with an even head_dim"));
  }
  if (!positions.is_cpu() || positions.scalar_type() != at::kLong || positions.dim() != 1 ||
      positions.size(0) != x.size(0)) {
    throw Error(cat(name, ": got positions ", shape(positions), " for ", x.size(0),
                    " tokens; expected a position per token, int64 on the CPU"));
  }
  if (!(base > 0)) throw Error(cat(name, ": got base ", base, "; expected a number above 0"));
  const int64_t* begin = elements<int64_t>(positions);
  const auto outside = [](int64_t position) { return position < 0 || position >= kMostRotaryPositions; };
  const int64_t* bad = std::find_if(begin, begin + positions.numel(), outside);
  if (bad != begin + positions.numel()) {
    throw Error(
        cat(name, ": got position ", *bad, " of token ", bad - begin, "; expected 0 to ", kMostRotaryPositions - 1));
  }
}

}  // namespace

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, double base) {
  const Recorded recorded("fovea::rotary");
  const at::Tensor places = positions.contiguous();
  check(x, places, base, "rotary");
  if (!fits_kernels({x})) return composite::rotary(x, places, base);
  const at::Tensor rows = with_plain_heads(x);
  if (wants_gradient({x})) return Rotary::apply(rows, places, base);
  return turned(rows, angles_of(places, x.size(2), base), Turn::kForward);
}

RotaryHeads rotary_heads(const at::Tensor& stacked, int64_t heads, const at::Tensor& positions, double base) {
  const Recorded recorded("fovea::rotary_heads");
  const at::Tensor places = positions.contiguous();
  check(stacked, places, base, "rotary_heads");
  if (heads < 1 || heads >= stacked.size(1) || (stacked.size(1) - heads) % 2 != 0) {
    throw Error(cat("rotary_heads: got ", heads, " heads of q in ", stacked.size(1),
                    "; expected as many heads of k as of v beside them"));
  }
  if (!fits_kernels({stacked}) || stacked.stride(2) != 1) {
    const RotaryHeads parts = parts_of(stacked, heads);
    return {rotary(parts.q, places, base), rotary(parts.k, places, base), parts.v};
  }
  if (!wants_gradient({stacked})) return turn_in_place(stacked, heads, angles_of(places, stacked.size(2), base));
  const variable_list results = RotaryHeadsFunction::apply(stacked, heads, places, base);
  return {results[0], results[1], results[2]};
}

}  // namespace fovea::ops
