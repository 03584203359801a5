#include "fovea/nn/clauses.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

#include "fovea/nn/index_tensor.h"
#include "fovea/spec/attention_spec.h"

namespace fovea::nn {

const at::Tensor& Clauses::of_level(int64_t level) const {
  return offsets.at(static_cast<size_t>(std::clamp<int64_t>(level, 1, std::ssize(offsets)) - 1));
}

Clauses clauses_of_levels(std::span<const uint8_t> levels, std::span<const int64_t> offsets) {
  std::vector<std::vector<int64_t>> starts(static_cast<size_t>(ClauseAttention::kMaxLevel));
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    for (int64_t i = offsets[b]; i < offsets[b + 1]; ++i) {
      const int64_t level = i == offsets[b] ? 1 : levels[static_cast<size_t>(i)];
      for (int64_t l = level; level > 0 && l <= ClauseAttention::kMaxLevel; ++l)
        starts[static_cast<size_t>(l - 1)].push_back(i);
    }
  }
  Clauses clauses;
  for (std::vector<int64_t>& level : starts) {
    level.push_back(offsets.back());
    clauses.offsets.push_back(index_tensor(std::move(level)));
  }
  return clauses;
}

void add_mixtures(const torch::nn::Module& module, NamedTensors& weights) {
  constexpr double kStart = -3;
  for (const auto& parameter : module.named_parameters()) {
    if (weights.contains(parameter.key())) continue;
    if (parameter.key().ends_with(".clause_mix")) weights[parameter.key()] = at::full_like(parameter.value(), kStart);
    if (parameter.key().ends_with(".clause_mix_weight")) weights[parameter.key()] = at::zeros_like(parameter.value());
  }
}

}  // namespace fovea::nn
