#pragma once
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

// The ways in which the scores s of a query's candidates become weights: one struct each, and one list. Parser,
// printer, help and tests follow from the list. kPointwise: a weight is a function of its own score alone.
namespace fovea {

// A real argument in [min, max] (a keyword may stand in its place: it sets `chosen`).
template <class S>
struct RealField {
  std::string_view name;
  double S::*member;
  double min, max;
  std::string_view keyword = {};
  bool S::*chosen = nullptr;
};

struct Softmax {
  static constexpr bool kPointwise = false;
  static constexpr std::string_view kName = "softmax", kHelp = "exp(s) over their sum";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const Softmax&) const = default;
};
struct Sparsemax {
  static constexpr bool kPointwise = false;
  static constexpr std::string_view kName = "sparsemax",
                                    kHelp = "projection onto the simplex (Martins, Astudillo 2016)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const Sparsemax&) const = default;
};
struct Entmax {
  double alpha = 1.5;    // > 1; 1 prints as softmax, 2 as sparsemax
  bool learned = false;  // alpha comes with the operator's input instead, one per head, in [1.0001, 64]
  static constexpr bool kPointwise = false;
  static constexpr std::string_view kName = "entmax", kHelp = "alpha-entmax (Peters, Niculae, Martins 2019)";
  static constexpr auto fields() {
    return std::tuple(RealField<Entmax>{"alpha", &Entmax::alpha, 1, 64, "learned", &Entmax::learned});
  }
  bool operator==(const Entmax&) const = default;
};
// Entmax's gradient goes by weight^(2 - alpha), which has no bound above alpha = 2: infinities would make NaN of a
// row's gradient, so each implementation takes at most this.
constexpr double kMostEntmaxDerivative = 0x1p64;
struct Relu {
  static constexpr bool kPointwise = true;
  static constexpr std::string_view kName = "relu", kHelp = "max(s, 0), not normalised (Zhang, Titov, Sennrich 2021)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const Relu&) const = default;
};
struct Gelu {
  static constexpr bool kPointwise = true;
  static constexpr std::string_view kName = "gelu", kHelp = "s Phi(s), exact, not normalised";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const Gelu&) const = default;
};
struct LeakyRelu {
  double slope = 0.01;
  static constexpr bool kPointwise = true;
  static constexpr std::string_view kName = "leaky-relu", kHelp = "s above 0, slope s below, not normalised";
  static constexpr auto fields() { return std::tuple(RealField<LeakyRelu>{"slope", &LeakyRelu::slope, 0, 1}); }
  bool operator==(const LeakyRelu&) const = default;
};

// The one list of transforms, the default first.
using Transform = std::variant<Softmax, Sparsemax, Entmax, Relu, Gelu, LeakyRelu>;

inline bool is_pointwise(const Transform& transform) {
  return std::visit([](const auto& t) { return t.kPointwise; }, transform);
}

// Every kernel says with this which transforms its code was written for: one more, and it does not compile until it
// takes or refuses that one.
template <class... Known>
inline constexpr bool kAreAllTransforms = std::is_same_v<Transform, std::variant<Known...>>;

}  // namespace fovea
