#pragma once
#include <string>
#include <string_view>

namespace fovea::text {

// Returns the text with the characters that its entities stand for: the names of HTML 4, such as &amp; and &eacute;,
// &apos;, and numbers, such as &#233; and &#xe9;. Others stay as they are.
std::string decode_entities(std::string_view text);

// Whether the HTML element of that name, in small letters, ends a sentence, like a paragraph or a line break.
bool is_block_element(std::string_view name);

}  // namespace fovea::text
