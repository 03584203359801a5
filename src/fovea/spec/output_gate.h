#pragma once
#include <cstdint>
#include <string_view>
#include <tuple>

#include "fovea/spec/word_field.h"

namespace fovea {

// A gate on z, the outputs of the heads behind the norm (Qiu et al. 2025, arXiv 2505.06708): z sigmoid(x w), where x is
// what the queries are projected from and w [M, H D], or [M, H] for one number a head. It reads x, so that it is a part
// of a layer, and the function of q, k and v refuses it.
struct OutputGate {
  enum class Per : uint8_t { kElement, kHead };
  Per per = Per::kElement;
  static constexpr std::string_view kName = "gate",
                                    kHelp = "z sigmoid(x w), x the layer's input; head: one number a head (Qiu 2025)";
  static constexpr auto fields() { return std::tuple(WordField<OutputGate, Per>{&OutputGate::per, "head"}); }
  bool operator==(const OutputGate&) const = default;
};

}  // namespace fovea
