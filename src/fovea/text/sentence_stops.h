#pragma once
#include <unicode/unistr.h>

#include <string>
#include <vector>

namespace fovea::text {

// The words of a language that tell which full stops end sentences.
struct Stops {
  std::vector<icu::UnicodeString> abbreviations;  // with their full stops, in small letters
  std::vector<icu::UnicodeString> first_words;  // that have a capital only at the start of a sentence, in small letters
  bool has_ordinals = false;                    // 3. is "third"
};
// Returns nothing for a language that is not listed. `language` is "de" or "pt-BR".
Stops stops_of(const std::string& language);

}  // namespace fovea::text
