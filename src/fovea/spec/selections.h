#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

#include "fovea/spec/patterns.h"
#include "fovea/spec/transforms.h"

// The ways in which some of a query's candidates are selected by their scores, before scores become weights: one struct
// each, and one list. Parser, printer, help and tests follow from the list.
//     threshold(s)      the definition, for the scores of the candidates in descending order, at least one and no NaN:
//     a
//                       candidate is selected if its score is at least this. So ties at the threshold are all selected.
//     most(candidates)  the greatest number of keys that are selected where no scores tie
//     kCountsKeys       that number is also the least: scores decide which keys, not how many
namespace fovea {

struct All {
  static constexpr bool kCountsKeys = true;
  static constexpr std::string_view kName = "all", kHelp = "every candidate";
  static constexpr auto fields() { return std::tuple<>(); }
  template <class T>
  T threshold(std::span<const T>) const {
    return -std::numeric_limits<T>::infinity();
  }
  int64_t most(int64_t candidates) const { return candidates; }
  bool operator==(const All&) const = default;
};

// Explicit Sparse Transformer (Zhao et al. 2019).
struct TopK {
  int64_t k = 1;
  static constexpr bool kCountsKeys = true;
  static constexpr std::string_view kName = "topk", kHelp = "the k best candidates and their ties";
  static constexpr auto fields() { return std::tuple(PatternField<TopK>{"k", &TopK::k, 1}); }
  template <class T>
  T threshold(std::span<const T> scores) const {
    const auto count = static_cast<int64_t>(scores.size());
    return count <= k ? -std::numeric_limits<T>::infinity() : scores[static_cast<size_t>(k - 1)];
  }
  int64_t most(int64_t candidates) const { return std::min(k, candidates); }
  bool operator==(const TopK&) const = default;
};

// The fewest of the best candidates whose softmax weights sum to p or more. With p = 1 that would be all, which is why
// p = 1 is `All`.
struct TopP {
  double p = 0.9;
  static constexpr bool kCountsKeys = false;
  static constexpr std::string_view kName = "top-p",
                                    kHelp = "the fewest of the best candidates that have p of softmax's weight";
  static constexpr auto fields() { return std::tuple(RealField<TopP>{"p", &TopP::p, 1e-6, 1}); }
  template <class T>
  T threshold(std::span<const T> scores) const {
    // Equal scores have equal weights, also where both are infinite.
    const auto weight = [&](T score) { return score == scores[0] ? T{1} : std::exp(score - scores[0]); };
    T total = 0, sum = 0;
    for (const T score : scores) total += weight(score);
    for (const T score : scores) {
      sum += weight(score);
      if (sum >= static_cast<T>(p) * total) return score;
    }
    return scores.back();
  }
  int64_t most(int64_t candidates) const { return candidates; }
  bool operator==(const TopP&) const = default;
};

// The one list of selections, the default first.
using Selection = std::variant<All, TopK, TopP>;

// Every kernel that selects says with this which selections its code was written for: one more, and it does not compile
// until it takes or refuses that one.
template <class... Known>
inline constexpr bool kAreAllSelections = std::is_same_v<Selection, std::variant<Known...>>;

inline bool selects(const Selection& selection) { return selection.index() != 0; }
inline std::string_view name_of(const Selection& selection) {
  return std::visit([](const auto& s) { return s.kName; }, selection);
}

}  // namespace fovea
