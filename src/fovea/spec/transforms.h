#pragma once
#include <cmath>
#include <numbers>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

// The ways in which the scores s of a query's candidates become weights: one struct each, and one list. Parser,
// printer, help and tests follow from the list.
//     kPointwise  a weight is a function of its own score alone: weight(s), the definition, with its derivative
//     slope(s),
//                 for finite scores; a score of -inf has the weight 0
namespace fovea {

// A real argument in [min, max]. A keyword may stand in its place, which sets `chosen`; with an empty keyword the
// argument may be left out, and `chosen` says that it was.
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
// An attention sink, as gpt-oss has them (OpenAI 2025): weight exp(s) / (exp(sink) + sum of exp(s)). It is like a key
// whose score is the head's own number and whose value is 0; no candidate of a selection, it always counts.
struct Sink {
  double score = 0;
  bool learned = true;  // the sink comes with the operator's input instead, one per head
  static constexpr bool kPointwise = false;
  static constexpr std::string_view kName = "sink",
                                    kHelp = "softmax beside a sink, a score of the head without a value (OpenAI 2025)";
  static constexpr auto fields() {
    return std::tuple(RealField<Sink>{"score", &Sink::score, -64, 64, "learned", &Sink::learned});
  }
  bool operator==(const Sink&) const = default;
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
  template <class T>
  T weight(T s) const {
    return s > 0 ? s : T{0};
  }
  template <class T>
  T slope(T s) const {
    return s > 0 ? T{1} : T{0};
  }
  bool operator==(const Relu&) const = default;
};
struct Gelu {
  static constexpr bool kPointwise = true;
  static constexpr std::string_view kName = "gelu", kHelp = "s Phi(s), exact, not normalised";
  static constexpr auto fields() { return std::tuple<>(); }
  template <class T>
  static T cumulative(T s) {
    return T{0.5} * std::erfc(-s * static_cast<T>(std::numbers::sqrt2 / 2));
  }
  template <class T>
  T weight(T s) const {
    return s * cumulative(s);
  }
  template <class T>
  T slope(T s) const {
    constexpr double kBell = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // 1 / sqrt(2 pi)
    return cumulative(s) + s * static_cast<T>(kBell) * std::exp(T{-0.5} * s * s);
  }
  bool operator==(const Gelu&) const = default;
};
struct LeakyRelu {
  double negative = 0.01;
  static constexpr bool kPointwise = true;
  static constexpr std::string_view kName = "leaky-relu", kHelp = "s above 0, slope s below, not normalised";
  static constexpr auto fields() { return std::tuple(RealField<LeakyRelu>{"slope", &LeakyRelu::negative, 0, 1}); }
  template <class T>
  T weight(T s) const {
    return s > 0 ? s : s * static_cast<T>(negative);
  }
  template <class T>
  T slope(T s) const {
    return s > 0 ? T{1} : static_cast<T>(negative);
  }
  bool operator==(const LeakyRelu&) const = default;
};

struct Sigmoid {
  double bias = 0;
  // The bias is -ln of the greatest number of keys of a training, which sets it. No kernel takes such a sigmoid.
  bool by_length = true;
  static constexpr bool kPointwise = true;
  static constexpr std::string_view kName = "sigmoid",
                                    kHelp =
                                        "1 / (1 + exp(-(s + bias))), not normalised (Ramapuram et al. 2024); alone: "
                                        "training sets bias to -ln(greatest length)";
  static constexpr auto fields() {
    return std::tuple(RealField<Sigmoid>{"bias", &Sigmoid::bias, -64, 64, "", &Sigmoid::by_length});
  }
  template <class T>
  T weight(T s) const {
    return T{1} / (T{1} + std::exp(-(s + static_cast<T>(bias))));
  }
  template <class T>
  T slope(T s) const {
    const T p = weight(s);
    return p * (T{1} - p);
  }
  bool operator==(const Sigmoid&) const = default;
};

// The one list of transforms, the default first.
using Transform = std::variant<Softmax, Sparsemax, Entmax, Relu, Gelu, LeakyRelu, Sigmoid, Sink>;

inline bool is_pointwise(const Transform& transform) {
  return std::visit([](const auto& t) { return t.kPointwise; }, transform);
}

// Every kernel says with this which transforms its code was written for: one more, and it does not compile until it
// takes or refuses that one.
template <class... Known>
inline constexpr bool kAreAllTransforms = std::is_same_v<Transform, std::variant<Known...>>;

}  // namespace fovea
