#include "fovea/nn/clause_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/layers.h"
#include "fovea/ops/clause_mix.h"
#include "fovea/ops/step.h"

namespace fovea::nn {
namespace {

const Clauses& clauses_of(const ClauseInputs& inputs, const ClauseHeads& heads) {
  if (inputs.clauses == nullptr)
    throw Error(cat(
        "attention '", heads.part->text,
        "' within clauses: this input has no clauses; use it in the encoder of a model that translates or tags text"));
  return *inputs.clauses;
}

// The sigmoid of each element by itself. at::sigmoid rounds the last elements of a tensor otherwise than those before
// them, so with it a token's value would depend on the batch. Training uses at::sigmoid, because it has a derivative.
at::Tensor sigmoid_of_each(const at::Tensor& x) {
  if (!x.is_cpu() || (at::GradMode::is_enabled() && x.requires_grad())) return x.sigmoid();
  const at::Tensor result = x.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
  auto* values = result.mutable_data_ptr<double>();
  for (int64_t i = 0; i < result.numel(); ++i) values[i] = 1 / (1 + std::exp(-values[i]));
  return result.to(x.scalar_type());
}

// p of level number `l` of a mixture, to be broadcast with [T, H, D]; of the group's heads.
at::Tensor probability_of(const ClauseHeads& heads, size_t l, const ClauseInputs& inputs) {
  if (heads.clauses->weights == ClauseAttention::Weights::kConstant)
    return at::full({1, 1, 1}, heads.clauses->constant, inputs.q.options());
  const at::Tensor p = inputs.probability.select(0, static_cast<int64_t>(l));
  return p.narrow(p.dim() - 2, heads.first, heads.count).to(inputs.q.dtype());
}

ops::AttentionOptions options_of(const ClauseHeads& heads, const ops::AttentionOptions& shared, size_t group,
                                 bool has_all_heads) {
  ops::AttentionOptions options = shared;
  options.gain.reset(), options.gate.reset(), options.bias.reset();
  if (has_all_heads) return options;
  for (std::optional<at::Tensor>* learned : {&options.alpha, &options.sinks}) {
    if (*learned) *learned = (*learned)->narrow(0, heads.first, heads.count);
  }
  // Heads of a group count from 0.
  options.dropout_seed = derive_seed(shared.dropout_seed, group);
  return options;
}

// Calls part(level, offsets) for all keys, level 0, and each level, and joins them from the deepest level on by
// mix(outer, inner, number of the level).
template <class Part, class Mix>
at::Tensor mixture(const ClauseHeads& heads, const ClauseInputs& inputs, const Part& part, const Mix& mix) {
  if (!heads.clauses) return part(0, inputs.offsets);
  const Clauses& clauses = clauses_of(inputs, heads);
  const std::vector<int64_t>& levels = heads.clauses->levels;
  at::Tensor inner = part(levels.back(), clauses.of_level(levels.back()));
  if (!heads.clauses->is_mixture()) return inner;
  for (size_t l = levels.size(); l-- > 0;) {
    const at::Tensor outer = l == 0 ? part(0, inputs.offsets) : part(levels[l - 1], clauses.of_level(levels[l - 1]));
    inner = mix(outer, inner, l);
  }
  return inner;
}

// Puts the weights of clauses, [C, H, n, n], where their sentences have them: [B, H, N, N].
at::Tensor placed(const at::Tensor& weights, const at::Tensor& clauses, const at::Tensor& offsets, at::Tensor into) {
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  const auto* starts = clauses.const_data_ptr<int64_t>();
  int64_t sentence = 0;
  for (int64_t c = 0; c + 1 < clauses.numel(); ++c) {
    while (bounds[sentence + 1] <= starts[c] && sentence + 2 < offsets.numel()) ++sentence;
    const int64_t begin = starts[c] - bounds[sentence], length = starts[c + 1] - starts[c];
    into.select(0, sentence)
        .narrow(1, begin, length)
        .narrow(2, begin, length)
        .copy_(weights.select(0, c).narrow(1, 0, length).narrow(2, 0, length));
  }
  return into;
}

// The inputs of the kernel of mixtures, if the group is such a mixture.
std::optional<ops::ClauseMixInputs> kernel_inputs(const ClauseHeads& group, const ClauseInputs& inputs,
                                                  const ops::AttentionOptions& options) {
  const ops::OffsetTerms& terms = options.offsets;
  const bool has_terms =
      terms.by_head.defined() || terms.by_query.defined() || terms.queries.defined() || terms.values.defined();
  const bool plain =
      group.part->groups[0].spec == AttentionSpec() && options.dropout == 0 && !has_terms && !options.scale;
  if (!group.clauses || !group.clauses->is_mixture() || !plain || inputs.clauses == nullptr) return std::nullopt;
  const auto own = [&](const at::Tensor& x) { return x.narrow(1, group.first, group.count); };
  ops::ClauseMixInputs in{own(inputs.q), own(inputs.k), own(inputs.v), {}, inputs.offsets, {}};
  const std::vector<int64_t>& levels = group.clauses->levels;
  if (group.clauses->weights == ClauseAttention::Weights::kConstant) {
    in.p = at::full({std::ssize(levels), group.count}, group.clauses->constant, inputs.q.options());
  } else {
    if (inputs.probability.dim() != 3) return std::nullopt;  // by token
    in.p = inputs.probability.squeeze(-1).narrow(0, 0, std::ssize(levels)).narrow(1, group.first, group.count);
  }
  for (const int64_t level : levels) in.clauses.push_back(inputs.clauses->of_level(level));
  if (!ops::fits_clause_mix(in)) return std::nullopt;
  return in;
}

}  // namespace

bool has_clauses(const LayerSpec& spec) {
  return std::ranges::any_of(spec, [](const HeadGroup& group) { return group.spec.clauses() != nullptr; });
}

std::vector<ClauseHeads> clause_heads(const LayerSpec& spec) {
  std::vector<ClauseHeads> result;
  int64_t first = 0;
  for (const HeadGroup& group : spec) {
    AttentionSpec part = group.spec;
    const ClauseAttention* clauses = group.spec.clauses();
    if (clauses != nullptr) part.source = Pairs{};
    part.norm = NoNorm{};
    result.push_back({first, group.num_heads, layer_of(part, group.num_heads),
                      clauses != nullptr ? std::optional(*clauses) : std::nullopt});
    first += group.num_heads;
  }
  return result;
}

ClauseMixture::ClauseMixture(torch::nn::Module& owner, const AttentionParameters& needs, const Shape& shape,
                             const InitScope& scope) {
  if (needs.mix_levels > 0)
    mix_ = owner.register_parameter("clause_mix", constant_tensor({needs.mix_levels, shape.heads}, 0, scope));
  if (needs.mix_by_token)
    weight_ = owner.register_parameter("clause_mix_weight",
                                       constant_tensor({needs.mix_levels * shape.heads, shape.width}, 0, scope));
}

at::Tensor ClauseMixture::probability(const at::Tensor& input) const {
  if (!mix_.defined()) return {};
  const int64_t levels = mix_.size(0), heads = mix_.size(1);
  if (!weight_.defined()) return mix_.sigmoid().unsqueeze(-1);
  const at::Tensor by_token = ops::linear(input, weight_, mix_.view({levels * heads}));
  return sigmoid_of_each(by_token.view({-1, levels, heads, 1}).transpose(0, 1));
}

std::string ClauseMixture::missing(const AttentionParameters& needs) const {
  if (needs.mix_by_token && !weight_.defined()) return "the weights of its mixture by token";
  if (needs.mix_levels > (mix_.defined() ? mix_.size(0) : 0)) return "the weights of its mixture";
  return "";
}

at::Tensor attend_to_clauses(const std::vector<ClauseHeads>& heads, const ClauseInputs& inputs,
                             const ops::AttentionOptions& shared) {
  std::vector<at::Tensor> outputs;
  for (size_t g = 0; g < heads.size(); ++g) {
    const ClauseHeads& group = heads[g];
    if (const auto in = kernel_inputs(group, inputs, shared)) {
      outputs.push_back(ops::clause_mix(*in));
      continue;
    }
    const auto own = [&](const at::Tensor& x) { return heads.size() == 1 ? x : x.narrow(1, group.first, group.count); };
    const at::Tensor q = own(inputs.q), k = own(inputs.k), v = own(inputs.v);
    ops::AttentionOptions options = options_of(group, shared, g, heads.size() == 1);
    const int64_t seed = options.dropout_seed;
    outputs.push_back(mixture(
        group, inputs,
        [&](int64_t level, const at::Tensor& offsets) {
          options.q_offsets = offsets;
          options.k_offsets = offsets;
          options.dropout_seed = level == 0 ? seed : derive_seed(seed, static_cast<uint64_t>(level), 1);
          return ops::attention(q, k, v, group.part, options);
        },
        [&](const at::Tensor& outer, const at::Tensor& inner, size_t l) {
          return at::lerp(outer, inner, probability_of(group, l, inputs));
        }));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 1);
}

at::Tensor clause_weights(const std::vector<ClauseHeads>& heads, const ClauseInputs& inputs,
                          const ops::AttentionOptions& shared) {
  std::vector<at::Tensor> outputs;
  const auto* bounds = inputs.offsets.const_data_ptr<int64_t>();
  for (size_t g = 0; g < heads.size(); ++g) {
    const ClauseHeads& group = heads[g];
    const at::Tensor q = inputs.q.narrow(1, group.first, group.count), k = inputs.k.narrow(1, group.first, group.count);
    ops::AttentionOptions options = options_of(group, shared, g, heads.size() == 1);
    const auto weights = [&](const at::Tensor& offsets) {
      options.q_offsets = offsets;
      options.k_offsets = offsets;
      return ops::attention_weights(q, k, group.part, options);
    };
    at::Tensor whole;  // for its shape
    outputs.push_back(mixture(
        group, inputs,
        [&](int64_t level, const at::Tensor& offsets) {
          if (!whole.defined()) whole = weights(inputs.offsets);
          return level == 0 ? whole : placed(weights(offsets), offsets, inputs.offsets, at::zeros_like(whole));
        },
        [&](const at::Tensor& outer, const at::Tensor& inner, size_t l) {
          // [B, H, N, N]: p of a query's token stands at its place in its sentence.
          const at::Tensor p = probability_of(group, l, inputs);
          if (p.size(0) == 1 || p.dim() == 2) return at::lerp(outer, inner, p.reshape({-1, 1, 1}));
          at::Tensor mixed = at::zeros_like(outer);
          for (int64_t b = 0; b < outer.size(0); ++b) {
            const int64_t length = bounds[b + 1] - bounds[b];
            const at::Tensor own = p.narrow(0, bounds[b], length).transpose(0, 1);  // [H, n, 1]
            mixed.select(0, b)
                .narrow(1, 0, length)
                .copy_(at::lerp(outer.select(0, b).narrow(1, 0, length), inner.select(0, b).narrow(1, 0, length), own));
          }
          return mixed;
        }));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 1);
}

}  // namespace fovea::nn
