#include "fovea/spec/positions.h"

#include <charconv>

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

// The argument of one scheme, of which there is at most one.
template <class Scheme>
void read_argument(Scheme& scheme, std::string_view argument, std::string_view text) {
  constexpr auto kFields = Scheme::fields();
  if constexpr (std::tuple_size_v<decltype(kFields)> == 0) {
    throw UsageError(cat("got '", text, "'; ", Scheme::kName, " takes no argument"));
  } else {
    const auto& field = std::get<0>(kFields);
    double value = 0;
    const auto [end, error] = std::from_chars(argument.data(), argument.data() + argument.size(), value);
    const bool whole = error == std::errc() && end == argument.data() + argument.size();
    if (!whole || !(value >= field.min && value <= field.max)) {
      throw UsageError(cat("got '", text, "'; expected a ", field.name, " between ", shortest(field.min), " and ",
                           shortest(field.max), ", e.g. ", Scheme::kName, "(", shortest(scheme.*field.member), ")"));
    }
    scheme.*field.member = value;
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
      read_argument(scheme, trim(text.substr(open + 1, text.size() - open - 2)), text);
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

template <class Scheme>
std::string print_scheme(const Scheme& scheme) {
  constexpr auto kFields = Scheme::fields();
  std::string text(Scheme::kName);
  if constexpr (std::tuple_size_v<decltype(kFields)> != 0) {
    const double value = scheme.*std::get<0>(kFields).member;
    if (scheme != Scheme{}) text += cat("(", shortest(value), ")");
  }
  return text;
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
