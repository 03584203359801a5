#pragma once
#include <functional>
#include <string_view>

#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/utf8.h"

// Splits text into lines, words and characters for the models that write_counted_model() writes.
namespace fovea::text {

// Shows `visit` each line without its end, "\n" or "\r\n", and whether it has one: the last line may have none.
template <class Visit>
void each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const bool has_end = end != std::string_view::npos;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(line.size() + (has_end ? 1 : 0));
    if (has_end && line.ends_with('\r')) line.remove_suffix(1);
    visit(line, has_end);
  }
}

// The bytes of the blank that `text` begins with: of white space or of U+2581; 0 if it begins with none.
inline size_t blank_size(std::string_view text) {
  return text.starts_with(kBlankSign) ? kBlankSign.size() : white_space_size(text);
}

// Shows `visit` each word between blanks.
template <class Visit>
void each_word(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    size_t size = 0;
    while (size < text.size() && blank_size(text.substr(size)) == 0) ++size;
    if (size > 0) visit(text.substr(0, size));
    text.remove_prefix(size);
    text.remove_prefix(blank_size(text));
  }
}

// Shows `visit` each character of UTF-8 text, a blank as U+2581.
template <class Visit>
void each_character_unit(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::string_view character = text.substr(0, first_character(text).size);
    visit(character == " " ? kBlankSign : character);
    text.remove_prefix(character.size());
  }
}

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

}  // namespace fovea::text
