#pragma once
#include <string_view>
#include <tuple>
#include <variant>

// What is done to z, the concatenated outputs of all heads of one token: one struct each, and one list.
namespace fovea {

struct NoNorm {
  static constexpr std::string_view kName = "none", kHelp = "no norm";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const NoNorm&) const = default;
};
struct RmsNorm {
  static constexpr std::string_view kName = "rmsnorm", kHelp = "g z / rms(z)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const RmsNorm&) const = default;
};
struct RmsNormXavier {
  static constexpr std::string_view kName = "rmsnorm-xavier", kHelp = "rmsnorm, g starts uniform in +-sqrt(3/d)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const RmsNormXavier&) const = default;
};
struct GatedRmsNorm {
  static constexpr std::string_view kName = "gated-rmsnorm", kHelp = "g z / rms(z) sigmoid(w z)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const GatedRmsNorm&) const = default;
};
struct LayerNorm {
  static constexpr std::string_view kName = "layernorm", kHelp = "g (z - mean) / std + b";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const LayerNorm&) const = default;
};

// The one list of norms, over the concatenated heads; the default first.
using Norm = std::variant<NoNorm, RmsNorm, RmsNormXavier, GatedRmsNorm, LayerNorm>;

}  // namespace fovea
