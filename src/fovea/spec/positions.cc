#include "fovea/spec/positions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
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

// The arguments of scaled turns that do not go together, or an empty text.
std::string problem_of(const Rotary& scheme) {
  if (scheme.llama3 && scheme.yarn) return "llama3 and yarn are two ways of the same, choose one";
  const bool has_pairs = scheme.llama3 || scheme.yarn;
  if (has_pairs && scheme.original == 0) return "llama3 and yarn need original=N, the tokens of the first training";
  if (!has_pairs && scheme.original != 0) return "original is of llama3 and yarn, choose one";
  const Rotary usual;
  if (!scheme.llama3 && (scheme.low != usual.low || scheme.high != usual.high)) return "low and high are of llama3";
  if (!scheme.yarn && (scheme.slow != usual.slow || scheme.fast != usual.fast || scheme.exact || scheme.gain != 0))
    return "slow, fast, exact and gain are of yarn";
  if (scheme.low >= scheme.high) return "expected low below high";
  if (scheme.yarn && scheme.base <= 1) return "yarn needs a base above 1";
  return "";
}

void check_together(const PositionSchemes& schemes, std::string_view text) {
  if (const auto rotary = find_scheme<Rotary>(schemes)) {
    if (const std::string problem = problem_of(*rotary); !problem.empty())
      throw UsageError(cat("got '", text, "'; ", problem));
  }
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

namespace {

// The frequency of a pair that turns `turns` times over the tokens of the first training: as it is above `high` turns,
// divided by the factor below `low`, and in between a mean of both.
double llama3_frequency(const Rotary& scheme, double frequency) {
  const double turns = scheme.original * frequency / (2 * std::numbers::pi);
  if (turns > scheme.high) return frequency;
  if (turns < scheme.low) return frequency / scheme.factor;
  const double share = (turns - scheme.low) / (scheme.high - scheme.low);
  return (1 - share) * frequency / scheme.factor + share * frequency;
}

// Peng et al. 2023: the share of f_i falls with the number of the pair, from the pair of `fast` turns to that of
// `slow`.
void scale_by_yarn(const Rotary& scheme, int64_t head_dim, RotaryAngles& angles) {
  const auto dim = static_cast<double>(head_dim);
  const auto pair_of = [&](double turns) {
    return dim * std::log(scheme.original / (turns * 2 * std::numbers::pi)) / (2 * std::log(scheme.base));
  };
  double first = pair_of(scheme.fast), last = pair_of(scheme.slow);
  if (!scheme.exact) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, dim - 1);
  if (first == last) last += 0.001;
  for (size_t i = 0; i < angles.frequencies.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    angles.frequencies[i] *= slow / scheme.factor + (1 - slow);
  }
  angles.scale = scheme.gain > 0 ? scheme.gain : 0.1 * std::log(scheme.factor) + 1;
}

}  // namespace

RotaryAngles angles_of(const Rotary& scheme, int64_t head_dim) {
  RotaryAngles angles = rotary_angles(head_dim, scheme.base);
  if (scheme.yarn) {
    scale_by_yarn(scheme, head_dim, angles);
    return angles;
  }
  for (double& frequency : angles.frequencies)
    frequency = scheme.llama3 ? llama3_frequency(scheme, frequency) : frequency / scheme.factor;
  return angles;
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
