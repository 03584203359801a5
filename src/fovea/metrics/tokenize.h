#pragma once
#include <span>
#include <string>
#include <string_view>

namespace fovea::metrics {

// A way to put white space between the tokens of a line, named as sacreBLEU names it; the line has no white space at
// its end.
struct Tokenizer {
  std::string_view name, help;
  std::u32string (*tokenize)(std::u32string_view line);
};

std::span<const Tokenizer> tokenizers();
std::string_view tokenizers_help();                      // of --tokenize: each name with what it does
std::string_view tokenizer_choices();                    // "13a|none|..."
const Tokenizer& find_tokenizer(std::string_view name);  // throws an Error that lists the names

// The normalisation of tercom, the program of TER: entities become characters, and marks tokens. With `asian`,
// ideographs and East Asian marks are tokens too.
std::u32string normalize_tercom(std::u32string_view line, bool asian);

// Removes the marks that TER leaves out on request: . , ? : ; ! " ( ) and, with `asian`, East Asian ones.
std::u32string without_marks(std::u32string_view line, bool asian);

}  // namespace fovea::metrics
