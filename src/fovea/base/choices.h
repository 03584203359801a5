#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

// The names of an enumeration's values in their order, in one text, as choice() of fields.h takes them:
// "self|causal|cross".
namespace fovea {

// The name at `place`, from 0; behind the last, nothing.
constexpr std::string_view choice_at(std::string_view choices, size_t place) {
  for (; place > 0; --place) {
    const size_t bar = choices.find('|');
    if (bar == std::string_view::npos) return {};
    choices.remove_prefix(bar + 1);
  }
  return choices.substr(0, choices.find('|'));
}

constexpr std::optional<size_t> place_of_choice(std::string_view choices, std::string_view name) {
  for (size_t place = 0; !choice_at(choices, place).empty(); ++place) {
    if (choice_at(choices, place) == name) return place;
  }
  return std::nullopt;
}

// The value of that name; any other text is an Error: "`what` 'slef'; expected one of self, causal, cross".
template <class E>
E parse_choice(std::string_view choices, std::string_view name, std::string_view what) {
  const std::optional<size_t> place = place_of_choice(choices, name);
  if (!place) throw Error(cat(what, " '", name, "'; expected one of ", join(split(choices, '|'), ", ")));
  return static_cast<E>(*place);
}

}  // namespace fovea
