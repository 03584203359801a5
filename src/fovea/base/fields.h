#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

// A configuration is a plain struct with one list of its fields; flags, YAML keys, help, defaults, validation and
// checkpoint metadata follow from the list.
namespace fovea {

// One field: `name` is the flag without its dashes and the YAML key ("dim-emb"). Numbers are checked against
// [min, max]; strings against `choices` (separated by '|') when there are any.
template <class S, class T>
struct Field {
  std::string_view name;
  T S::*member;
  std::string_view help;
  double min = -1e300, max = 1e300;
  std::string_view choices = {};
  std::string_view aliases = {};  // further spellings, separated by ','; a single letter is a short flag: "c,max-tokens"
};

template <class S, class T>
constexpr Field<S, T> field(std::string_view name, T S::*member, std::string_view help) {
  return {name, member, help};
}
template <class S, class T>
constexpr Field<S, T> number(std::string_view name, T S::*member, std::string_view help, double min,
                             double max = 1e300, std::string_view aliases = {}) {
  return {name, member, help, min, max, {}, aliases};
}
template <class S>
constexpr Field<S, std::string> choice(std::string_view name, std::string S::*member, std::string_view help,
                                       std::string_view choices) {
  return {name, member, help, -1e300, 1e300, choices};
}
template <class S, class T>
constexpr Field<S, T> named(std::string_view name, T S::*member, std::string_view help, std::string_view aliases) {
  return {name, member, help, -1e300, 1e300, {}, aliases};
}

// Calls visit(field) for every field of S.
template <class S>
void for_each_field(auto&& visit) {
  std::apply([&](const auto&... f) { (visit(f), ...); }, S::fields());
}

}  // namespace fovea
