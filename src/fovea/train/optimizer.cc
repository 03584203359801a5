#include "fovea/train/optimizer.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_module.h"

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

// Calls work.operator()<place>() for the places of all optimisers, in their order, until it returns true.
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
    throw Error(cat(origin, ": it was trained with --optimizer ", choice_at(kOptimizers, *saved), ", got ",
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
