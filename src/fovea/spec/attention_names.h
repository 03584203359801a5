#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/spec/attention_spec.h"

// The lists of patterns, transforms and norms as the parser, the printer and the help texts walk them.
namespace fovea {

constexpr int64_t kMaxArgument = std::numeric_limits<int32_t>::max();  // of whole numbers

// Calls visit(T{}) for every type of a variant, in the list's order.
template <class List, class F>
void for_each_type(F&& visit) {
  [&]<size_t... I>(std::index_sequence<I...>) { (visit(std::variant_alternative_t<I, List>{}), ...); }
  (std::make_index_sequence<std::variant_size_v<List>>());
}

// Calls visit(T{}) for every source that stands alone, not Pairs.
template <class F>
void for_each_alone(F&& visit) {
  for_each_type<Source>([&]<class T>(T item) {
    if constexpr (!std::is_same_v<T, Pairs>) visit(std::move(item));
  });
}

// A short way to write a longer spec; `k` counts the keys a query sees in all.
struct Alias {
  std::string_view name, help;
  bool is_stage;    // else it stands for pairs
  int64_t divisor;  // k must be a multiple; 0: no argument
  std::string (*expansion)(int64_t k);
};
const std::vector<Alias>& aliases();

// Every name that may stand where pairs (stages) are expected.
std::vector<std::string> known_pairs();
std::vector<std::string> known_stages();

}  // namespace fovea
