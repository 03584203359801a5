#include "fovea/ops/ssru.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/kernels/layer/ssru.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// `states` may be undefined.
at::Tensor ssru_forward(const at::Tensor& projected, const at::Tensor& offsets, const at::Tensor& states) {
  at::Tensor out = at::empty({projected.size(0), projected.size(1) / 2}, projected.options());
  with_element(projected, [&]<class T>(T) {
    kernels::SsruForward<T> job{.projected = elements<T>(projected),
                                .offsets = offsets.const_data_ptr<int64_t>(),
                                .states = elements<float>(states),
                                .out = elements<T>(out)};
    job.sequences = offsets.numel() - 1, job.width = out.size(1), job.stride = projected.stride(0);
    kernels::ssru(job, torch_executor());
  });
  return out;
}

at::Tensor ssru_backward(const at::Tensor& projected, const at::Tensor& offsets, const at::Tensor& grad_out) {
  at::Tensor grad = at::empty(projected.sizes(), projected.options());
  with_element(projected, [&]<class T>(T) {
    kernels::SsruBackward<T> job{.projected = elements<T>(projected),
                                 .offsets = offsets.const_data_ptr<int64_t>(),
                                 .grad_out = elements<T>(grad_out),
                                 .grad_projected = elements<T>(grad)};
    job.sequences = offsets.numel() - 1, job.width = grad_out.size(1), job.stride = projected.stride(0);
    kernels::ssru(job, torch_executor());
  });
  return grad;
}

struct Ssru : torch::autograd::Function<Ssru> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& projected, const at::Tensor& offsets) {
    context->save_for_backward({projected, offsets});
    return ssru_forward(projected, offsets, {});
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("ssru");
    const variable_list saved = context->get_saved_variables();
    return {ssru_backward(saved[0], saved[1], grads[0].contiguous()), {}};
  }
};

struct Parts {
  at::Tensor value, open, shut;
};
Parts parts_of(const at::Tensor& projected) {
  const auto halves = projected.chunk(2, 1);
  return {halves[0], halves[1].sigmoid(), (-halves[1]).sigmoid()};
}

// [T]: the number of a token in its sequence, from 0.
at::Tensor places_in_sequences(const at::Tensor& offsets) {
  const int64_t tokens = offsets[-1].item<int64_t>();
  const at::Tensor lengths = offsets.diff();
  return at::arange(tokens, at::kLong) -
         at::repeat_interleave(offsets.narrow(0, 0, lengths.numel()), lengths, 0, tokens);
}

// Any device and type, with autograd's derivatives, by a scan of pairs (a, b), where c = a c' + b: each round doubles
// the number of tokens that a pair spans.
at::Tensor composite_ssru(const at::Tensor& projected, const at::Tensor& offsets) {
  const Parts parts = parts_of(projected);
  at::Tensor a = parts.open, b = parts.shut * parts.value;
  const int64_t tokens = projected.size(0);
  if (tokens == 0) return b.relu();
  const at::Tensor places = places_in_sequences(offsets);
  const int64_t longest = places.max().item<int64_t>() + 1;
  for (int64_t span = 1; span < longest; span *= 2) {
    // A token whose pair spans its sequence's beginning takes no more.
    const at::Tensor goes_on = (places >= span).to(projected.device()).unsqueeze(1);
    const auto earlier = [&](const at::Tensor& x) {
      return at::constant_pad_nd(x.narrow(0, 0, tokens - span), {0, 0, span, 0});
    };
    b = at::where(goes_on, at::addcmul(b, a, earlier(b)), b);
    a = at::where(goes_on, a * earlier(a), a);
  }
  return b.relu();
}

void check_rows(const at::Tensor& projected) {
  if (projected.dim() == 2 && projected.size(1) % 2 == 0) return;
  throw Error(cat("ssru: the projections have ", projected.dim(), " dimensions, the last of ",
                  projected.dim() > 0 ? projected.size(-1) : 0, "; expected two, the last one even: [T, 2 M]"));
}

}  // namespace

at::Tensor ssru(const at::Tensor& projected, const at::Tensor& offsets) {
  check_rows(projected);
  const int64_t sequences = offsets.dim() == 1 ? offsets.numel() - 1 : -1;
  if (sequences < 0 || !offsets.is_cpu() || offsets.scalar_type() != at::kLong || offsets[0].item<int64_t>() != 0 ||
      offsets[sequences].item<int64_t>() != projected.size(0) || (offsets.diff() < 0).any().item<bool>())
    throw Error(cat("ssru: expected offsets [B + 1], int64 on the CPU, that rise from 0 to the ", projected.size(0),
                    " tokens"));
  if (!fits_kernels({projected})) return composite_ssru(projected, offsets);
  const at::Tensor rows = with_plain_rows(projected), bounds = offsets.contiguous();
  return wants_gradient({projected}) ? Ssru::apply(rows, bounds) : ssru_forward(rows, bounds, {});
}

at::Tensor ssru_step(const at::Tensor& projected, at::Tensor& states) {
  check_rows(projected);
  if (states.dim() != 2 || states.size(0) != projected.size(0) || 2 * states.size(1) != projected.size(1))
    throw Error(cat("ssru_step: got states ", states.sizes(), " for projections ", projected.sizes(),
                    "; expected [R, M] for [R, 2 M]"));
  if (fits_kernels({projected}) && states.is_cpu() && states.scalar_type() == at::kFloat && states.is_contiguous())
    return ssru_forward(with_plain_rows(projected), at::arange(projected.size(0) + 1, at::kLong), states);
  const Parts parts = parts_of(projected.to(states.scalar_type()));
  states = at::addcmul(parts.shut * parts.value, parts.open, states);
  return states.relu().to(projected.scalar_type());
}

}  // namespace fovea::ops
