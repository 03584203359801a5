#pragma once
#include <string>
#include <string_view>
#include <vector>

// Text as code points, with the few string operations whose exact meaning the metrics' published figures depend on:
// those of Python's str, in which sacreBLEU is written.
namespace fovea::metrics {

std::u32string decode_utf8(std::string_view text);  // invalid bytes become U+FFFD
std::u32string lower_case(std::u32string_view text);

bool is_space(char32_t c);
std::u32string_view strip(std::u32string_view text);
std::u32string_view strip_right(std::u32string_view text);
std::vector<std::u32string_view> split_words(std::u32string_view text);  // on runs of white space; views into `text`
std::u32string without_spaces(std::u32string_view text);
std::u32string replace_all(std::u32string_view text, std::u32string_view from, std::u32string_view to);

// General categories N, P and S of Unicode.
bool is_number(char32_t c);
bool is_punctuation(char32_t c);
bool is_symbol(char32_t c);

}  // namespace fovea::metrics
