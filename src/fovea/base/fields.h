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

// One field: `name` is the flag without its dashes and the YAML key ("dim-emb"). Numbers are checked against
// [min, max]; strings against `choices` (separated by '|') when there are any.
template <class S, class T>
struct Field {
  std::string_view name;
  T S::*member;
  std::string_view help;
  double min = -1e300, max = 1e300;
  std::string_view choices = {};
  std::string_view aliases =
      {};  // further spellings, separated by ','; a single letter is a short flag: "c,max-tokens"
};

template <class S, class T>
constexpr Field<S, T> field(std::string_view name, T S::*member, std::string_view help) {
  return {name, member, help};
}
template <class S, class T>
constexpr Field<S, T> number(std::string_view name, T S::*member, std::string_view help, double min, double max = 1e300,
                             std::string_view aliases = {}) {
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

// A field of one object with its type erased: what flags and files work on.
struct FieldView {
  std::string_view name, help;
  double min, max;
  std::string_view choices, aliases;
  std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*, std::vector<double>*,
               std::vector<std::string>*>
      value;
  bool is_flag() const { return std::holds_alternative<bool*>(value); }
  bool is_list() const { return value.index() >= 4; }
};

template <class S>
std::vector<FieldView> field_views(S& object) {
  std::vector<FieldView> views;
  std::apply(
      [&](const auto&... f) {
        (views.push_back({f.name, f.help, f.min, f.max, f.choices, f.aliases, &(object.*f.member)}), ...);
      },
      S::fields());
  return views;
}

// Sets a field from text; throws a UsageError "--dim-emb: got 'x'; expected a whole number".
void assign(const FieldView& field, const std::vector<std::string>& values);
// The value as text, a list with one entry for scalars; assign() reads it back.
std::vector<std::string> values_of(const FieldView& field);

}  // namespace fovea
