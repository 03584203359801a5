#include "fovea/ops/prepacked_layer.h"

#include <ATen/ops/empty.h>

#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/layer/top_n.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"

namespace fovea::ops {
namespace {

at::Tensor multiply(const at::Tensor& x, const kernels::PrepackedLayer& layer, bool relu) {
  at::Tensor out = at::empty({x.size(0), layer.columns()}, x.options());
  with_element(x, [&]<class T>(T) {
    kernels::LayerRows<T> job{.a = elements<T>(x), .layer = &layer, .out = elements<T>(out)};
    job.rows = x.size(0), job.a_stride = x.stride(0), job.out_stride = out.stride(0);
    job.relu = relu;
    kernels::multiply(job, torch_executor());
  });
  return out;
}

}  // namespace

PrepackedLayer::PrepackedLayer(const at::Tensor& weight, const at::Tensor& bias, Format format)
    : weight_(weight), bias_(bias), format_(format) {
  if (!fits_kernels({weight, bias}) || weight.dim() != 2 || weight.numel() == 0) return;
  const at::Tensor matrix = weight.contiguous(), offset = bias.defined() ? bias.contiguous() : bias;
  with_element(matrix, [&]<class T>(T) {
    const kernels::LayerWeights<T> from{elements<T>(matrix), elements<T>(offset), matrix.size(0), matrix.size(1)};
    packed_ = std::make_shared<const kernels::PrepackedLayer>(from, format, torch_executor());
  });
}

PrepackedLayer::PrepackedLayer(const OutputLayer& output, Format format)
    : PrepackedLayer(output.weight, tensor_or_none(output.bias), format) {
  softcap_ = output.softcap;
}

at::Tensor PrepackedLayer::operator()(const at::Tensor& x, Activation activation) const {
  at::Tensor out = uncapped(x, activation);
  if (softcap_ > 0) out.div_(softcap_).tanh_().mul_(softcap_);
  return out;
}

at::Tensor PrepackedLayer::uncapped(const at::Tensor& x, Activation activation) const {
  if (!packed_ || !fits_kernels({x, weight_}) || x.dim() != 2 || x.size(1) != weight_.size(1)) {
    return linear(x, weight_, some_or_none(bias_), activation);
  }
  const bool relu = activation == Activation::kRelu;
  const at::Tensor out = multiply(with_plain_rows(x), *packed_, relu);
  return relu ? out : activated(out, activation);
}

int64_t PrepackedLayer::next_words(const at::Tensor& x, const Wanted& wanted, kernels::Continuations& next) const {
  if (x.dim() != 2 || x.size(1) != weight_.size(1) || x.scalar_type() != at::kFloat ||
      weight_.scalar_type() != at::kFloat || wanted.n < 1 || wanted.n > weight_.size(0)) {
    throw Error(cat("next_words: got ", wanted.n, " words of a layer of ", weight_.size(0), " columns for rows of ",
                    x.dim(), " dimensions; expected float32 rows [T, ", weight_.size(1),
                    "] and no more words than columns"));
  }
  const int64_t rows = x.size(0), n = wanted.n;
  next.best.resize(static_cast<size_t>(rows * n));
  next.eos_log_prob.resize(static_cast<size_t>(rows));
  next.asked_log_probs.resize(wanted.asked.size());
  const int64_t* asked_offsets = wanted.asked_offsets.empty() ? nullptr : wanted.asked_offsets.data();
  if (!packed_ || !x.is_cpu() || softcap_ > 0) {
    const at::Tensor logits = (*this)(x).cpu();
    return kernels::top_n_log_softmax({logits.const_data_ptr<float>(), rows, logits.size(1)},
                                      {.n = n,
                                       .eos = wanted.eos,
                                       .best = next.best.data(),
                                       .eos_log_prob = next.eos_log_prob.data(),
                                       .asked_offsets = asked_offsets,
                                       .asked = wanted.asked.data(),
                                       .asked_log_probs = next.asked_log_probs.data()},
                                      torch_executor());
  }
  const at::Tensor hidden = with_plain_rows(x);
  std::vector<int32_t> words(next.best.size());
  std::vector<float> log_probs(next.best.size());
  kernels::NextWords job{.hidden = elements<float>(hidden), .output = packed_.get()};
  job.rows = rows, job.hidden_stride = hidden.stride(0);
  job.n = n, job.eos = wanted.eos;
  job.words = words.data(), job.log_probs = log_probs.data(), job.eos_log_prob = next.eos_log_prob.data();
  job.asked_offsets = asked_offsets, job.asked = wanted.asked.data();
  job.asked_log_probs = next.asked_log_probs.data();
  const int64_t bad = kernels::next_words(job, torch_executor());
  for (size_t i = 0; i < words.size(); ++i) next.best[i] = {words[i], log_probs[i]};
  return bad;
}

}  // namespace fovea::ops
