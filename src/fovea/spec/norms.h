#pragma once
#include <string_view>
#include <tuple>
#include <variant>

// The operations on z, the concatenated outputs of all heads of one token: one struct each, and one list. Parser,
// printer, help, parameters, their initialisation, the operators and tests follow from kParts.
namespace fovea {

// The parts of a norm: y = gain (z - centre) / sqrt(mean of (z - centre)^2 + eps) sigmoid(gate z) + bias.
struct NormParts {
  bool gain = false, gate = false, bias = false;  // has them as parameters
  bool centred = false;                           // centre is z's mean; else 0
  bool uniform_gain = false;                      // gain starts uniform in +-sqrt(3 / width); else at 1
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
struct RmsNormXavier {
  static constexpr NormParts kParts = {.gain = true, .uniform_gain = true};
  static constexpr std::string_view kName = "rmsnorm-xavier", kHelp = "rmsnorm, g starts uniform in +-sqrt(3/d)";
  static constexpr auto fields() { return std::tuple<>(); }
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
// ReLA's gate over layer norm in place of RMS norm (Zhang, Titov, Sennrich 2021, table 1).
struct GatedLayerNorm {
  static constexpr NormParts kParts = {.gain = true, .gate = true, .bias = true, .centred = true};
  static constexpr std::string_view kName = "gated-layernorm", kHelp = "g (z - mean) / std sigmoid(w z) + b";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const GatedLayerNorm&) const = default;
};

// The one list of norms, over the concatenated heads; the default first.
using Norm = std::variant<NoNorm, RmsNorm, RmsNormXavier, GatedRmsNorm, LayerNorm, GatedLayerNorm>;

inline NormParts parts_of(const Norm& norm) {
  return std::visit([]<class N>(const N&) { return N::kParts; }, norm);
}
inline std::string_view name_of(const Norm& norm) {
  return std::visit([]<class N>(const N&) { return N::kName; }, norm);
}

}  // namespace fovea
