#include "fovea/spec/positions.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

template <class F>
void for_each_scheme(const F& f) {
  [&]<class... T>(std::variant<T...>*) { (f(T{}), ...); }(static_cast<PositionScheme*>(nullptr));
}

std::vector<std::string> known_schemes() {
  std::vector<std::string> names;
  for_each_scheme([&](const auto& scheme) { names.emplace_back(scheme.kName); });
  return names;
}

PositionsAct act_of(const PositionScheme& scheme) {
  return std::visit([](const auto& s) { return s.kAct; }, scheme);
}

template <class S>
std::string expected_of(const PositionsField<S>& field) {
  const std::string range = cat("between ", shortest(field.min), " and ", shortest(field.max));
  if (field.is_named) return cat(field.name, "=N, N ", range);
  return cat("a ", field.name, " ", range);
}
template <class S>
std::string expected_of(const PositionsWord<S>& word) {
  return cat("'", word.name, "'");
}

// An argument and its place among all arguments.
struct PositionsArgument {
  std::string_view text;
  size_t place = 0;
};

// Sets the field, whose place among the scheme's fields is `place`. False if the argument is another field's or does
// not fit. An argument without a name belongs to the field at its own place.
template <class S>
bool read_field(S& scheme, const PositionsField<S>& field, size_t place, PositionsArgument argument) {
  if (field.is_named) {
    if (!argument.text.starts_with(cat(field.name, "="))) return false;
    argument.text.remove_prefix(field.name.size() + 1);
  } else if (argument.place != place) {
    return false;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(argument.text.data(), argument.text.data() + argument.text.size(), value);
  const bool read = error == std::errc() && end == argument.text.data() + argument.text.size();
  if (!read || !(value >= field.min && value <= field.max) || (field.is_whole && value != std::floor(value))) {
    return false;
  }
  scheme.*field.member = value;
  return true;
}
template <class S>
bool read_field(S& scheme, const PositionsWord<S>& word, size_t, PositionsArgument argument) {
  if (argument.text != word.name) return false;
  return scheme.*word.member = true;
}

template <class Scheme>
void read_arguments(Scheme& scheme, std::string_view arguments, std::string_view text) {
  constexpr auto kFields = Scheme::fields();
  if constexpr (std::tuple_size_v<decltype(kFields)> == 0) {
    throw UsageError(cat("got '", text, "'; ", Scheme::kName, " takes no argument"));
  } else {
    size_t place = 0;
    std::array<bool, std::tuple_size_v<decltype(kFields)>> given{};
    for (const std::string& part : split(arguments, ',')) {
      size_t fields = 0;  // tried; the last one is the argument's if it was read
      const bool read = std::apply(
          [&](const auto&... field) {
            return (read_field(scheme, field, fields++, {trim(part), place}) || ...);
          },
          kFields);
      ++place;
      if (read && std::exchange(given.at(fields - 1), true))
        throw UsageError(cat("got '", text, "'; give each argument once"));
      if (read) continue;
      std::vector<std::string> expected;
      std::apply([&](const auto&... field) { (expected.push_back(expected_of(field)), ...); }, kFields);
      throw UsageError(cat("got '", text, "'; expected ", join(expected, " or "), ", e.g. ", Scheme::kExample));
    }
  }
}

PositionScheme read_scheme(std::string_view text) {
  const size_t open = text.find('(');
  const std::string name(trim(text.substr(0, open)));
  std::optional<PositionScheme> found;
  for_each_scheme([&](auto scheme) {
    if (name != scheme.kName) return;
    if (open != std::string_view::npos) {
      if (!text.ends_with(')')) throw UsageError(cat("got '", text, "'; expected ')' at the end"));
      read_arguments(scheme, trim(text.substr(open + 1, text.size() - open - 2)), text);
    }
    found = scheme;
  });
  if (!found) {
    throw UsageError(cat("got '", name, "'; expected some of ", position_names(), ", joined by '+'",
                         did_you_mean(name, known_schemes())));
  }
  return *found;
}

void check_together(const PositionSchemes& schemes, std::string_view text) {
  for (size_t i = 0; i < schemes.size(); ++i) {
    if (act_of(schemes[i]) == PositionsAct::kNowhere && schemes.size() > 1)
      throw UsageError(cat("got '", text, "'; 'none' stands alone"));
    for (size_t j = 0; j < i; ++j) {
      if (schemes[i].index() == schemes[j].index()) throw UsageError(cat("got '", text, "'; give each scheme once"));
    }
  }
  std::vector<std::string> added;  // in the order of the list
  for_each_scheme([&]<class Scheme>(const Scheme& scheme) {
    if (scheme.kAct == PositionsAct::kOnEmbeddings && find_scheme<Scheme>(schemes)) added.emplace_back(scheme.kName);
  });
  if (added.size() > 1)
    throw UsageError(cat("got '", text, "'; ", join(added, " and "), " are both added to the embeddings, choose one"));
}

template <class S>
void print_field(const S& scheme, const PositionsField<S>& field, std::vector<std::string>& parts) {
  const double value = scheme.*field.member;
  if (!field.is_named) parts.push_back(shortest(value));
  if (field.is_named && value != S{}.*field.member) parts.push_back(cat(field.name, "=", shortest(value)));
}
template <class S>
void print_field(const S& scheme, const PositionsWord<S>& word, std::vector<std::string>& parts) {
  if (scheme.*word.member) parts.emplace_back(word.name);
}

template <class Scheme>
std::string print_scheme(const Scheme& scheme) {
  std::string text(Scheme::kName);
  if (scheme == Scheme{}) return text;
  std::vector<std::string> parts;
  std::apply([&](const auto&... field) { (print_field(scheme, field, parts), ...); }, Scheme::fields());
  return cat(text, "(", join(parts, ","), ")");
}

// The parts between the '+' that stand outside of parentheses: the '+' in rotary(5e+05) does not join schemes.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  bool inside = false;
  for (const char c : text) {
    if (c == '(' || c == ')') inside = c == '(';
    if (c == '+' && !inside) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

PositionSchemes parse_positions(std::string_view text) {
  PositionSchemes schemes;
  for (const std::string& part : parts_of(text)) schemes.push_back(read_scheme(trim(part)));
  check_together(schemes, text);
  return schemes;
}

std::string print(const PositionSchemes& schemes) {
  std::vector<std::string> parts;
  for (const PositionScheme& scheme : schemes) {
    parts.push_back(std::visit([](const auto& s) { return print_scheme(s); }, scheme));
  }
  return join(parts, "+");
}

std::string position_names() { return join(known_schemes(), ", "); }

}  // namespace fovea
