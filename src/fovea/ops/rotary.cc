#include "fovea/ops/rotary.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

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

// The turns of the tokens: positions [T], contiguous, each a row of the table.
struct Turns {
  at::Tensor positions;
  std::shared_ptr<const kernels::RotaryTable> table;
};

int64_t longest(const at::Tensor& positions) {
  const int64_t* begin = elements<int64_t>(positions);
  return positions.numel() == 0 ? 0 : *std::max_element(begin, begin + positions.numel());
}

Turns turns_of(const at::Tensor& positions, const RotaryAngles& angles) {
  return {positions, kernels::rotary_table(angles, longest(positions) + 1)};
}

// The angles as numbers that backward can keep.
std::vector<double> numbers_of(const RotaryAngles& angles) {
  std::vector<double> numbers = angles.frequencies;
  numbers.push_back(angles.scale);
  return numbers;
}
RotaryAngles angles_from(std::vector<double> numbers) {
  const double scale = numbers.back();
  numbers.pop_back();
  return {std::move(numbers), scale};
}

template <class E>
kernels::Rows<E> head_rows(const at::Tensor& x) {
  return {elements<std::remove_const_t<E>>(x), x.stride(0), x.stride(1)};
}

// x, out [T, H, D], elements of a head side by side; out may be x.
void turn(const at::Tensor& x, const at::Tensor& out, const Turns& turns, Turn direction) {
  with_element(x, [&]<class T>(T) {
    kernels::RotaryPass<T> job{.x = head_rows<const T>(x), .out = head_rows<T>(out)};
    job.positions = elements<int64_t>(turns.positions), job.angles = turns.table->values.get();
    job.tokens = x.size(0), job.heads = x.size(1), job.head_dim = x.size(2);
    job.turn = direction;
    kernels::rotate(job, torch_executor());
  });
}

at::Tensor with_plain_heads(const at::Tensor& x) { return x.stride(2) == 1 ? x : x.contiguous(); }

at::Tensor turned(const at::Tensor& x, const Turns& turns, Turn direction) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  turn(x, out, turns, direction);
  return out;
}

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& positions,
                            const RotaryAngles& angles) {
    context->save_for_backward({positions});
    context->saved_data["angles"] = numbers_of(angles);
    return turned(x, turns_of(positions, angles), Turn::kForward);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("rotary");
    const at::Tensor grad = with_plain_heads(grads[0]);
    const Turns turns =
        turns_of(context->get_saved_variables()[0], angles_from(context->saved_data["angles"].toDoubleVector()));
    return {turned(grad, turns, Turn::kBack), {}, {}};
  }
};

// q, k and v within stacked [T, H + 2 K, D].
RotaryHeads parts_of(const at::Tensor& stacked, int64_t heads) {
  const int64_t others = (stacked.size(1) - heads) / 2;
  return {stacked.narrow(1, 0, heads), stacked.narrow(1, heads, others), stacked.narrow(1, heads + others, others)};
}

// Turns q and k in place; the results are tensors that autograd takes for new ones, not for views of stacked.
RotaryHeads turn_in_place(const at::Tensor& stacked, int64_t heads, const Turns& turns) {
  const at::AutoDispatchBelowADInplaceOrView below;
  RotaryHeads parts = parts_of(stacked, heads);
  const at::Tensor turning = stacked.narrow(1, 0, heads + parts.k.size(1));
  turn(turning, turning, turns, Turn::kForward);
  // An operator that saved stacked for its backward then throws instead of reading the changed numbers.
  stacked.unsafeGetTensorImpl()->bump_version();
  return parts;
}

struct RotaryHeadsFunction : torch::autograd::Function<RotaryHeadsFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& stacked, int64_t heads,
                               const at::Tensor& positions, const RotaryAngles& angles) {
    context->save_for_backward({positions});
    context->saved_data["angles"] = numbers_of(angles);
    const RotaryHeads parts = turn_in_place(stacked, heads, turns_of(positions, angles));
    return {parts.q, parts.k, parts.v};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("rotary_heads");
    const at::Tensor q = with_plain_heads(grads[0]), k = with_plain_heads(grads[1]);
    const int64_t heads = q.size(1);
    const at::Tensor result = at::empty({q.size(0), heads + 2 * k.size(1), q.size(2)}, q.options());
    const RotaryHeads to = parts_of(result, heads);
    const Turns turns =
        turns_of(context->get_saved_variables()[0], angles_from(context->saved_data["angles"].toDoubleVector()));
    turn(q, to.q, turns, Turn::kBack);
    turn(k, to.k, turns, Turn::kBack);
    to.v.copy_(grads[2]);
    return {result, {}, {}, {}};
  }
};

void check(const at::Tensor& x, const at::Tensor& positions, const RotaryAngles& angles, std::string_view name) {
  if (x.dim() != 3 || x.size(2) % 2 != 0) {
    throw Error(cat(name, ": got ", shape(x), "; expected [tokens, heads, head_dim] with an even head_dim"));
  }
  if (!positions.is_cpu() || positions.scalar_type() != at::kLong || positions.dim() != 1 ||
      positions.size(0) != x.size(0)) {
    throw Error(cat(name, ": got positions ", shape(positions), " for ", x.size(0),
                    " tokens; expected a position per token, int64 on the CPU"));
  }
  if (2 * std::ssize(angles.frequencies) != x.size(2)) {
    throw Error(cat(name, ": got ", angles.frequencies.size(), " frequencies for heads of ", x.size(2),
                    " numbers; expected one for each pair"));
  }
  const int64_t* begin = elements<int64_t>(positions);
  const auto outside = [](int64_t position) { return position < 0 || position >= kMostRotaryPositions; };
  const int64_t* bad = std::find_if(begin, begin + positions.numel(), outside);
  if (bad != begin + positions.numel()) {
    throw Error(
        cat(name, ": got position ", *bad, " of token ", bad - begin, "; expected 0 to ", kMostRotaryPositions - 1));
  }
}

RotaryAngles angles_of_base(const at::Tensor& x, double base, std::string_view name) {
  if (!(base > 0)) throw Error(cat(name, ": got base ", base, "; expected a number above 0"));
  return rotary_angles(x.dim() == 3 ? x.size(2) : 0, base);
}

}  // namespace

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const RotaryAngles& angles) {
  const Recorded recorded("fovea::rotary");
  const at::Tensor places = positions.contiguous();
  check(x, places, angles, "rotary");
  if (!fits_kernels({x})) return composite::rotary(x, places, angles);
  const at::Tensor rows = with_plain_heads(x);
  if (wants_gradient({x})) return Rotary::apply(rows, places, angles);
  return turned(rows, turns_of(places, angles), Turn::kForward);
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, double base) {
  return rotary(x, positions, angles_of_base(x, base, "rotary"));
}

RotaryHeads rotary_heads(const at::Tensor& stacked, int64_t heads, const at::Tensor& positions, double base) {
  return rotary_heads(stacked, heads, positions, angles_of_base(stacked, base, "rotary_heads"));
}

RotaryHeads rotary_heads(const at::Tensor& stacked, int64_t heads, const at::Tensor& positions,
                         const RotaryAngles& angles) {
  const Recorded recorded("fovea::rotary_heads");
  const at::Tensor places = positions.contiguous();
  check(stacked, places, angles, "rotary_heads");
  if (heads < 1 || heads >= stacked.size(1) || (stacked.size(1) - heads) % 2 != 0) {
    throw Error(cat("rotary_heads: got ", heads, " heads of q in ", stacked.size(1),
                    "; expected as many heads of k as of v beside them"));
  }
  if (!fits_kernels({stacked}) || stacked.stride(2) != 1) {
    const RotaryHeads parts = parts_of(stacked, heads);
    return {rotary(parts.q, places, angles), rotary(parts.k, places, angles), parts.v};
  }
  if (!wants_gradient({stacked})) return turn_in_place(stacked, heads, turns_of(places, angles));
  const variable_list results = RotaryHeadsFunction::apply(stacked, heads, places, angles);
  return {results[0], results[1], results[2]};
}

}  // namespace fovea::ops
