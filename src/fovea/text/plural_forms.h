#pragma once
#include <cstddef>
#include <optional>
#include <string>
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

// The value of a field of a catalogue's header, such as "Plural-Forms:"; "" if the header lacks it.
std::string header_field(const std::string& header, std::string_view name);

// The forms that the header of the catalogue `path` names. Returns none, with a warning, if its rule cannot be read.
std::optional<PluralForms> plural_forms_of(const std::string& header, const std::string& path);

// Which of `count` forms of a text count. Without a rule, the last form is most likely the one for most numbers.
PluralForms used_forms(const std::optional<PluralForms>& forms, size_t count);

}  // namespace fovea::text
