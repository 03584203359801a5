#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace fovea::text {

// The numbers of a catalogue's forms that translate a text for one thing and a text for several.
struct PluralForms {
  size_t one = 0, many = 0;
};

// Reads the field Plural-Forms of a catalogue's header: "nplurals=2; plural=n != 1;", where `plural` is an expression
// of C over n. The form for several things is the one for most numbers among those whose form is not that of 1; it is
// that of 1 if all are. Returns none for other text.
std::optional<PluralForms> parse_plural_forms(std::string_view field);

}  // namespace fovea::text
