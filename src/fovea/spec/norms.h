#pragma once
#include <cstdint>
#include <string_view>
#include <tuple>
#include <variant>

#include "fovea/spec/word_field.h"

// The operations on z, the concatenated outputs of all heads of one token: one struct each, and one list. Parser,
// printer, help, parameters, their initialisation, the operators and tests follow from kParts.
namespace fovea {

// The first values of a norm's gain: ones, or uniform in +-sqrt(3 / n), where n is the width of z or that of one head.
enum class GainStart : uint8_t { kOne, kByWidth, kByHead };

// The parts of a norm: y = gain (z - centre) / sqrt(mean of (z - centre)^2 + eps) sigmoid(gate z) + bias.
struct NormParts {
  bool gain = false, gate = false, bias = false;  // has them as parameters
  bool centred = false;                           // centre is z's mean; else 0
  GainStart gain_start = GainStart::kOne;
  bool operator==(const NormParts&) const = default;
};

struct NoNorm {
  static constexpr NormParts kParts = {};
  static constexpr std::string_view kName = "none", kHelp = "no norm";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const NoNorm&) const = default;
};
struct RmsNorm {
  static constexpr NormParts kParts = {.gain = true};
  static constexpr std::string_view kName = "rmsnorm", kHelp = "g z / rms(z)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const RmsNorm&) const = default;
};
// ReLA-i's norm (Zhang, Titov, Sennrich 2021). Xavier's draw needs a number of inputs: the paper norms the concatenated
// heads, and its footnote names the width of one head, so both are offered.
struct RmsNormXavier {
  enum class Range : uint8_t { kWidth, kHead };
  Range range = Range::kWidth;
  static constexpr NormParts kParts = {.gain = true, .gain_start = GainStart::kByWidth};
  static constexpr std::string_view kName = "rmsnorm-xavier",
                                    kHelp = "rmsnorm, g starts uniform in +-sqrt(3/d); d: the width, or that of a head";
  static constexpr auto fields() { return std::tuple(WordField<RmsNormXavier, Range>{&RmsNormXavier::range, "head"}); }
  constexpr NormParts parts() const {
    NormParts own = kParts;
    if (range == Range::kHead) own.gain_start = GainStart::kByHead;
    return own;
  }
  bool operator==(const RmsNormXavier&) const = default;
};
struct GatedRmsNorm {
  static constexpr NormParts kParts = {.gain = true, .gate = true};
  static constexpr std::string_view kName = "gated-rmsnorm", kHelp = "g z / rms(z) sigmoid(w z)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const GatedRmsNorm&) const = default;
};
struct LayerNorm {
  static constexpr NormParts kParts = {.gain = true, .bias = true, .centred = true};
  static constexpr std::string_view kName = "layernorm", kHelp = "g (z - mean) / std + b";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const LayerNorm&) const = default;
};
// ReLA's gate over layer norm in place of RMS norm (Zhang, Titov, Sennrich 2021, equation 5 and table 1).
struct GatedLayerNorm {
  static constexpr NormParts kParts = {.gain = true, .gate = true, .bias = true, .centred = true};
  static constexpr std::string_view kName = "gated-layernorm", kHelp = "sigmoid(w z) (g (z - mean) / std + b)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const GatedLayerNorm&) const = default;
};

// The one list of norms, over the concatenated heads; the default first.
using Norm = std::variant<NoNorm, RmsNorm, RmsNormXavier, GatedRmsNorm, LayerNorm, GatedLayerNorm>;

inline NormParts parts_of(const Norm& norm) {
  return std::visit(
      []<class N>(const N& n) {
        if constexpr (requires { n.parts(); }) {
          return n.parts();
        } else {
          return N::kParts;
        }
      },
      norm);
}
inline std::string_view name_of(const Norm& norm) {
  return std::visit([]<class N>(const N&) { return N::kName; }, norm);
}

}  // namespace fovea
