#pragma once
#include <array>
#include <string_view>
#include <utility>

#include "fovea/base/choices.h"

// The list of optimisers. Each has its step in train/, in the same order as here.
namespace fovea {

inline constexpr std::string_view kOptimizers = "adam|adagrad|adafactor";

// The optimisers that use this option of training, as in kOptimizers; empty: it belongs to none in particular.
constexpr std::string_view optimizers_with(std::string_view option) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOptions = {
      {{"optimizer-params", "adam"},
       {"weight-decay", "adam|adafactor"},
       {"adagrad-eps", "adagrad"},
       {"adagrad-initial", "adagrad"},
       {"adafactor-relative-step", "adafactor"},
       {"adafactor-clip", "adafactor"},
       {"adafactor-decay", "adafactor"}}};
  for (const auto& [name, users] : kOptions) {
    if (name == option) return users;
  }
  return {};
}

}  // namespace fovea
