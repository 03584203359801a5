#include "fovea/metrics/unspaced.h"

#include <unicode/uscript.h>

#include <algorithm>
#include <cstdint>

#include "fovea/base/strings.h"
#include "fovea/metrics/unicode.h"

namespace fovea::metrics {
namespace {

// The letters of a text, and its blanks between them.
struct LetterCounts {
  int64_t letters = 0, blanks = 0;
  int64_t han = 0, kana = 0, others = 0;  // letters of scripts without blanks

  void add(std::string_view line) {
    const std::u32string text = decode_utf8(line);
    for (const char32_t c : strip(text)) {
      if (is_space(c)) {
        ++blanks;
      } else if (!is_punctuation(c) && !is_symbol(c)) {
        add_letter(c);
      }
    }
  }
  int64_t unspaced() const { return han + kana + others; }

 private:
  void add_letter(char32_t c) {
    ++letters;
    UErrorCode status = U_ZERO_ERROR;
    switch (uscript_getScript(static_cast<UChar32>(c), &status)) {
      case USCRIPT_HAN:
        ++han;
        break;
      case USCRIPT_HIRAGANA:
      case USCRIPT_KATAKANA:
        ++kana;
        break;
      case USCRIPT_THAI:
      case USCRIPT_LAO:
      case USCRIPT_KHMER:
      case USCRIPT_MYANMAR:
      case USCRIPT_TIBETAN:
        ++others;
        break;
      default:
        break;
    }
  }
};

}  // namespace

std::string_view better_tokenizer(std::span<const std::string> references, std::string_view tokenize) {
  constexpr size_t kLines = 2000;  // enough to tell
  if (tokenize == "zh" || tokenize == "char") return "";
  LetterCounts counts;
  for (const std::string& line : references.first(std::min(references.size(), kLines))) counts.add(line);
  const bool is_mostly_unspaced = counts.unspaced() * 2 > counts.letters;
  const bool stands_apart = counts.blanks * 4 > counts.letters;  // words of segmented Chinese have about two letters
  if (!is_mostly_unspaced || stands_apart) return "";
  const bool is_chinese = counts.han * 2 > counts.unspaced() && counts.kana * 10 < counts.unspaced();
  return is_chinese ? "zh" : "char";
}

std::string unspaced_message(std::string_view option, std::string_view tokenize, std::string_view better) {
  return cat("most of the reference is in a script without blanks between words, and ", option, " ", tokenize,
             " takes whole clauses for words; BLEU needs ", option, " ", better);
}

}  // namespace fovea::metrics
