#pragma once
#include <string>
#include <string_view>

namespace fovea::text {

// Returns the text with the characters that its entities stand for: the names of HTML 4, such as &amp; and &eacute;,
// &apos;, and numbers, such as &#233; and &#xe9;. Others stay as they are. The names that HTML knows without a
// semicolon, and numbers, need none unless a letter, a digit or '=' follows, as in a link's "?a=1&copy=2".
std::string decode_entities(std::string_view text);

// The reference to a character or an entity that a text begins with, such as "&amp;" or "&name;".
struct Reference {
  size_t size = 0;        // in bytes; 0: the text begins with none
  std::string character;  // that decode_entities() gives for it; empty for another name
};
Reference leading_reference(std::string_view text);

// Whether the HTML element of that name, in small letters, ends a sentence, like a paragraph or a line break.
bool is_block_element(std::string_view name);

}  // namespace fovea::text
