#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"

// Texts of the lists' names for derived tests: what is new in a list is in them at once.
namespace fovea {

// A value of the argument at `place`; drawn, except in the first attempt.
inline std::string example_argument(const SpecArgument& argument, size_t place, size_t attempt) {
  constexpr std::array<double, 3> kAboveMin = {5, 1, 2};
  Rng rng(attempt, place);
  if (argument.step == 0) {
    const double share = attempt == 0 ? 0.3 : rng.uniform();
    return shortest(argument.min + share * std::min(1.0, argument.max - argument.min));
  }
  const double wanted = argument.min + (attempt == 0 ? kAboveMin.at(place % 3) : static_cast<double>(rng.below(12)));
  const auto step = static_cast<double>(argument.step);
  return shortest(std::ceil(wanted / step) * step);
}

// "fixed(6,2)": the name with arguments that go together; and with each keyword, "entmax(learned)", or the name alone
// where its keyword may be left out.
inline std::vector<std::string> examples(const SpecName& name) {
  if (name.fields.empty()) return {name.name};
  for (size_t attempt = 0; attempt < 1000; ++attempt) {
    std::vector<std::string> values;
    for (const SpecArgument& field : name.fields) values.push_back(example_argument(field, values.size(), attempt));
    const auto with = [&](const std::vector<std::string>& all) { return cat(name.name, '(', join(all, ","), ')'); };
    std::vector<std::string> out = {with(values)};
    for (size_t i = 0; i < values.size(); ++i) {
      if (name.fields[i].keyword.empty()) continue;
      std::vector<std::string> others = values;
      others[i] = name.fields[i].keyword;
      const bool is_default = print(parse_attention(with(others))) == name.name;
      out.push_back(is_default ? name.name : with(others));
    }
    try {
      for (const std::string& text : out) parse_attention(text);
      return out;
    } catch (const SpecError&) {
      continue;  // they do not go together
    }
  }
  throw std::logic_error("no arguments found for " + name.name);
}

inline std::vector<std::string> examples(const std::vector<SpecName>& names) {
  std::vector<std::string> out;
  for (const SpecName& name : names)
    for (const std::string& text : examples(name)) out.push_back(text);
  return out;
}

}  // namespace fovea
