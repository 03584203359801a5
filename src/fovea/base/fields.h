#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

// A configuration is a plain struct with one list of its fields; flags, YAML keys, help, defaults, validation and
// checkpoint metadata follow from the list.
namespace fovea {

// The bound of a number that has none of its own.
inline constexpr double kNoLimit = 1e300;

// One field: `name` is the flag without its dashes and the YAML key ("dim-emb"). Numbers are checked against
// [min, max]; strings against `choices` (separated by '|') when there are any.
template <class S, class T>
struct Field {
  std::string_view name;
  T S::*member;
  std::string_view help;
  double min = -kNoLimit, max = kNoLimit;
  std::string_view choices = {};
  // Further spellings, separated by ','; a single letter is a short flag: "c,max-tokens".
  std::string_view aliases = {};
  int64_t most = 0;  // values of a list, at most; 0: any number
};

template <class S, class T>
constexpr Field<S, T> field(std::string_view name, T S::*member, std::string_view help) {
  return {name, member, help};
}
template <class S, class T>
constexpr Field<S, T> number(std::string_view name, T S::*member, std::string_view help, double min,
                             double max = kNoLimit) {
  return {name, member, help, min, max};
}
template <class S>
constexpr Field<S, std::string> choice(std::string_view name, std::string S::*member, std::string_view help,
                                       std::string_view choices) {
  return {name, member, help, -kNoLimit, kNoLimit, choices};
}
template <class S, class T>
constexpr Field<S, T> named(Field<S, T> plain, std::string_view aliases) {
  plain.aliases = aliases;
  return plain;
}
template <class S, class T>
constexpr Field<S, T> named(std::string_view name, T S::*member, std::string_view help, std::string_view aliases) {
  return named(field(name, member, help), aliases);
}
template <class S, class T>
constexpr Field<S, std::vector<T>> at_most(int64_t values, Field<S, std::vector<T>> list) {
  list.most = values;
  return list;
}

// A field of one object with its type erased, for flags and files.
struct FieldView {
  std::string_view name, help;
  double min, max;
  std::string_view choices, aliases;
  std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*, std::vector<double>*,
               std::vector<std::string>*>
      value;
  int64_t most = 0;
  bool is_flag() const { return std::holds_alternative<bool*>(value); }
  bool is_list() const { return value.index() >= 4; }
};

template <class S>
std::vector<FieldView> field_views(S& object) {
  std::vector<FieldView> views;
  std::apply(
      [&](const auto&... f) {
        (views.push_back({f.name, f.help, f.min, f.max, f.choices, f.aliases, &(object.*f.member), f.most}), ...);
      },
      S::fields());
  return views;
}

// Sets a field from text; throws a UsageError "got 'x'; expected a whole number".
void set_value(const FieldView& field, const std::vector<std::string>& values);
// Like set_value(), for a flag: "--dim-emb: got 'x'; expected a whole number".
void assign(const FieldView& field, const std::vector<std::string>& values);
// The value as text, a list with one entry for scalars; assign() reads it back.
std::vector<std::string> values_of(const FieldView& field);

}  // namespace fovea
