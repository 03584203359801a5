#pragma once
#include <span>
#include <string_view>

namespace fovea::text {

// The most frequent function words of a language, in lower case, apart by blanks.
struct FunctionWords {
  std::string_view language, words;
};

// English, and other languages that are written in Latin letters. A word that is frequent in English stands in no other
// list.
std::string_view english_function_words();
std::span<const FunctionWords> foreign_function_words();

}  // namespace fovea::text
