#include "fovea/train/optimizer.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/ops/optimizers.h"
#include "fovea/ops/step.h"
#include "fovea/train/tensor_groups.h"

namespace fovea::train {
namespace {

static_assert(choice_at(kOptimizers, std::variant_size_v<Optimizer>).empty() &&
              !choice_at(kOptimizers, std::variant_size_v<Optimizer> - 1).empty());

template <size_t kPlace>
bool has_state_of(const nn::NamedTensors& tensors) {
  return std::ranges::any_of(std::variant_alternative_t<kPlace, Optimizer>::kGroups, [&](std::string_view group) {
    return std::ranges::any_of(tensors, [&](const auto& item) { return item.first.starts_with(group); });
  });
}

// Calls work.operator()<place>() for each optimiser in order, until a call returns true.
template <class Work>
void try_optimizers(Work&& work) {
  [&]<size_t... kPlaces>(std::index_sequence<kPlaces...>) { (void)(work.template operator()<kPlaces>() || ...); }
  (std::make_index_sequence<std::variant_size_v<Optimizer>>());
}

// The place in kOptimizers of the optimiser that left these tensors.
std::optional<size_t> optimizer_of(const nn::NamedTensors& tensors) {
  std::optional<size_t> found;
  try_optimizers([&]<size_t kPlace>() {
    if (has_state_of<kPlace>(tensors)) found = kPlace;
    return found.has_value();
  });
  return found;
}

}  // namespace

Adam::Adam(const TrainConfig& config, const FlatParameters& parameters)
    : beta1_(config.optimizer_params.at(0)),
      beta2_(config.optimizer_params.at(1)),
      eps_(config.optimizer_params.at(2)),
      weight_decay_(config.weight_decay),
      mean_(parameters.zeros()),
      variance_(parameters.zeros()) {}

void Adam::step(FlatParameters& parameters, const OptimizerStep& step) {
  parameters.scale_gradients(step.tensor_scales);
  ops::adam_step(
      {.params = parameters.weights(), .mean = mean_, .variance = variance_, .copy = parameters.compute_copy()},
      parameters.gradients(),
      {.learn_rate = step.learn_rate,
       .beta1 = beta1_,
       .beta2 = beta2_,
       .eps = eps_,
       .weight_decay = weight_decay_,
       .step = step.update,
       .grad_scale = step.gradient_scale});
}

nn::NamedTensors Adam::state(const FlatParameters& parameters) const {
  nn::NamedTensors state;
  insert_group(state, kGroups[0], parameters.views(mean_));
  insert_group(state, kGroups[1], parameters.views(variance_));
  return state;
}

Adagrad::Adagrad(const TrainConfig& config, const FlatParameters& parameters)
    : eps_(config.adagrad_eps), sum_(parameters.zeros().fill_(config.adagrad_initial)) {}

void Adagrad::step(FlatParameters& parameters, const OptimizerStep& step) {
  ops::AdagradOptions options{.learn_rate = step.learn_rate, .eps = eps_, .grad_scale = step.gradient_scale};
  if (step.tensor_scales.empty()) {
    ops::adagrad_step({.params = parameters.weights(), .sum = sum_, .copy = parameters.compute_copy()},
                      parameters.gradients(), options);
    return;
  }
  const nn::NamedTensors gradients = parameters.views(parameters.gradients()), sums = parameters.views(sum_),
                         copies = parameters.copy_views();
  auto scale = step.tensor_scales.begin();
  for (const auto& [name, weights] : parameters.views(parameters.weights())) {
    options.learn_rate = step.learn_rate * *scale++;
    const auto copy = copies.find(name);
    ops::adagrad_step(
        {.params = weights, .sum = sums.at(name), .copy = copy == copies.end() ? at::Tensor() : copy->second},
        gradients.at(name), options);
  }
}

nn::NamedTensors Adagrad::state(const FlatParameters& parameters) const {
  nn::NamedTensors state;
  insert_group(state, kGroups[0], parameters.views(sum_));
  return state;
}

Adafactor::Adafactor(const TrainConfig& config, const FlatParameters& parameters)
    : options_{.relative_step = config.adafactor_relative_step,
               .clip = config.adafactor_clip,
               .decay = config.adafactor_decay,
               .weight_decay = config.weight_decay} {
  const nn::NamedTensors gradients = parameters.views(parameters.gradients()), copies = parameters.copy_views();
  for (const auto& [name, weights] : parameters.views(parameters.weights())) {
    const auto copy = copies.find(name);
    names_.push_back(name);
    parameters_.push_back(
        ops::adafactor_parameter(weights, gradients.at(name), copy == copies.end() ? at::Tensor() : copy->second));
  }
}

void Adafactor::step(FlatParameters& parameters, const OptimizerStep& step) {
  parameters.scale_gradients(step.tensor_scales);
  options_.learn_rate = step.learn_rate;
  options_.grad_scale = step.gradient_scale;
  options_.step = step.update;
  ops::adafactor_step(parameters_, options_);
}

nn::NamedTensors Adafactor::state(const FlatParameters& /*parameters*/) const {
  nn::NamedTensors state;
  for (size_t i = 0; i < names_.size(); ++i) {
    const bool is_matrix = parameters_[i].row.defined();
    if (is_matrix) state[kGroups[0] + names_[i]] = parameters_[i].row;
    state[kGroups[is_matrix ? 1 : 2] + names_[i]] = parameters_[i].column;
  }
  return state;
}

Optimizer make_optimizer(const TrainConfig& config, const FlatParameters& parameters) {
  std::optional<Optimizer> made;
  try_optimizers([&]<size_t kPlace>() {
    if (choice_at(kOptimizers, kPlace) == config.optimizer)
      made.emplace(std::in_place_index<kPlace>, config, parameters);
    return made.has_value();
  });
  if (!made) throw Error(cat("--optimizer: got '", config.optimizer, "'"));
  return std::move(*made);
}

nn::NamedTensors state_of(const Optimizer& optimizer, const FlatParameters& parameters) {
  return std::visit([&](const auto& chosen) { return chosen.state(parameters); }, optimizer);
}

void restore_state(Optimizer& optimizer, const FlatParameters& parameters, const nn::NamedTensors& tensors,
                   const std::string& origin) {
  const std::optional<size_t> saved = optimizer_of(tensors);
  if (saved && *saved != optimizer.index())
    throw Error(cat(origin, ": the run was trained with --optimizer ", choice_at(kOptimizers, *saved), ", got ",
                    choice_at(kOptimizers, optimizer.index()),
                    "; give the same optimiser, or start a new run from its weights with --pretrained-model"));
  const nn::NamedTensors own = state_of(optimizer, parameters);
  for (const auto& [name, tensor] : own) tensor.copy_(nn::tensor_of(tensors, name, tensor.sizes(), origin));
  std::visit(
      [&](const auto& chosen) {
        for (const auto& [name, tensor] : tensors) {
          const bool is_state =
              std::ranges::any_of(chosen.kGroups, [&](auto group) { return name.starts_with(group); });
          if (is_state && !own.contains(name))
            throw Error(cat(origin, ": tensor '", name, "' does not belong to this model"));
        }
      },
      optimizer);
}

}  // namespace fovea::train
