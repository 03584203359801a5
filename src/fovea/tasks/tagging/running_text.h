#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/column_lines.h"

namespace fovea::tagging {

// The words of running text: between white space, each punctuation character at the beginning or the end of such a word
// being a word of its own, and each kana and Chinese character, as in clauses and in BERT's tokeniser. A full stop
// stays with a word that has another one inside, such as "U.S.".
std::vector<std::string> words_of_text(std::string_view line);

// Whether the word is a stretch of text in a script that has no blanks between words, such as Thai, and whose
// characters are not words either.
bool runs_words_together(std::string_view word);

// The first of some lines of columns that are sentences of ordinary text, if nearly all of them are; else null.
const text::ColumnLine* running_text(std::span<const text::ColumnLine> lines);

}  // namespace fovea::tagging
