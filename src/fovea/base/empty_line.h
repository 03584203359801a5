#pragma once
#include <cstddef>
#include <string_view>

namespace fovea {

// The bytes of the character that `text` begins with, if it shows nothing: white space of any kind, a control
// character, a mark without width such as a soft hyphen, a joiner, a mark of direction, a byte order mark or a
// variation selector, or U+2581, which vocabularies read as a blank. 0 for any other, and for bytes that are not UTF-8.
size_t unseen_size(std::string_view text);

// Whether a line has no visible text. The whole program takes such a line for an empty one.
bool is_empty_line(std::string_view line);

}  // namespace fovea
