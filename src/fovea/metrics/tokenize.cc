#include "fovea/metrics/tokenize.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/unicode.h"

namespace fovea::metrics {
namespace {

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_stop(char32_t c) { return c == '.' || c == ','; }

// ASCII punctuation that mteval-v13a always sets apart: all but the apostrophe, the full stop, the comma and the dash.
bool is_separate(char32_t c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

// Rewrites neighbours for which `matches` holds, left to right; a character belongs to one pair at most, as in a
// regular expression's substitution. `first` is set around the pair's first character, `second` around its second.
struct Spaces {
  std::u32string_view before_first, between, after_second;
};
template <class Matches>
std::u32string space_pairs(std::u32string_view text, const Spaces& spaces, const Matches& matches) {
  std::u32string out;
  out.reserve(text.size() * 5 / 4);
  for (size_t i = 0; i < text.size();) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      out.append(spaces.before_first);
      out.push_back(text[i]);
      out.append(spaces.between);
      out.push_back(text[i + 1]);
      out.append(spaces.after_second);
      i += 2;
    } else {
      out.push_back(text[i++]);
    }
  }
  return out;
}

template <class Matches>
std::u32string space_characters(std::u32string_view text, const Matches& matches) {
  std::u32string out;
  out.reserve(text.size() * 5 / 4);
  for (const char32_t c : text) {
    if (matches(c)) {
      out.append({U' ', c, U' '});
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// The part that the 13a and zh tokenizers share.
std::u32string split_western(std::u32string_view text) {
  std::u32string line = space_characters(text, is_separate);
  line = space_pairs(line, {U"", U" ", U" "}, [](char32_t a, char32_t b) { return !is_digit(a) && is_stop(b); });
  line = space_pairs(line, {U" ", U" ", U""}, [](char32_t a, char32_t b) { return is_stop(a) && !is_digit(b); });
  return space_pairs(line, {U"", U" ", U" "}, [](char32_t a, char32_t b) { return is_digit(a) && b == '-'; });
}

std::u32string tokenize_13a(std::u32string_view text) {
  std::u32string line = replace_all(std::u32string(text), U"<skipped>", U"");
  line = replace_all(replace_all(line, U"-\n", U""), U"\n", U" ");
  for (const auto& [entity, character] :
       {std::pair{U"&quot;", U"\""}, std::pair{U"&amp;", U"&"}, std::pair{U"&lt;", U"<"}, std::pair{U"&gt;", U">"}})
    line = replace_all(line, entity, character);
  return split_western(U" " + line + U" ");
}

// The ranges of sacreBLEU's table as it works, not as it was meant: its two five-digit ranges are read as a character
// and a digit, so that the first covers U+2001 to U+2A6D (general punctuation, arrows, operators) and the ideographs of
// extension B stay unsplit.
bool is_chinese(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  static constexpr std::array kRanges = {
      Range{0x2001, 0x2a6d}, Range{0x2e80, 0x2eff}, Range{0x2f00, 0x2fdf}, Range{0x2ff0, 0x2fff}, Range{0x3000, 0x303f},
      Range{0x3100, 0x312f}, Range{0x31a0, 0x31bf}, Range{0x31c0, 0x31ef}, Range{0x3200, 0x33ff}, Range{0x3400, 0x4db5},
      Range{0x4e00, 0x9fbb}, Range{0xf900, 0xfa2d}, Range{0xfa30, 0xfa6a}, Range{0xfa70, 0xfad9}, Range{0xfe10, 0xfe1f},
      Range{0xfe30, 0xfe4f}, Range{0xff00, 0xffef}};
  return std::any_of(kRanges.begin(), kRanges.end(), [c](const Range& r) { return c >= r.first && c <= r.last; });
}

std::u32string tokenize_zh(std::u32string_view text) {
  return split_western(space_characters(strip(text), is_chinese));
}

// mteval-v14's international tokenisation: punctuation but between digits, and symbols.
std::u32string tokenize_intl(std::u32string_view text) {
  std::u32string line =
      space_pairs(text, {U"", U" ", U" "}, [](char32_t a, char32_t b) { return !is_number(a) && is_punctuation(b); });
  line =
      space_pairs(line, {U" ", U" ", U""}, [](char32_t a, char32_t b) { return is_punctuation(a) && !is_number(b); });
  return space_characters(line, is_symbol);
}

std::u32string tokenize_char(std::u32string_view text) {
  return space_characters(text, [](char32_t) { return true; });
}

std::u32string tokenize_none(std::u32string_view text) { return std::u32string(text); }

}  // namespace

std::span<const Tokenizer> tokenizers() {
  static constexpr std::array kTokenizers = {
      Tokenizer{"13a", "as mteval-v13a.pl, for most languages", tokenize_13a},
      Tokenizer{"none", "the text is tokenised already", tokenize_none},
      Tokenizer{"char", "every character is a token", tokenize_char},
      Tokenizer{"zh", "Chinese characters one by one, the rest as 13a", tokenize_zh},
      Tokenizer{"intl", "as mteval-v14.pl --international-tokenization", tokenize_intl},
  };
  return kTokenizers;
}

std::string_view tokenizers_help() {
  static const std::string kHelp = [] {
    std::vector<std::string> parts;
    for (const Tokenizer& tokenizer : tokenizers()) parts.push_back(cat(tokenizer.name, ": ", tokenizer.help));
    return cat("tokens of BLEU; ", join(parts, "; "));
  }();
  return kHelp;
}

std::string_view tokenizer_choices() {
  static const std::string kChoices = [] {
    std::string names;
    for (const Tokenizer& tokenizer : tokenizers()) names += cat(names.empty() ? "" : "|", tokenizer.name);
    return names;
  }();
  return kChoices;
}

const Tokenizer& find_tokenizer(std::string_view name) {
  std::vector<std::string> known;
  for (const Tokenizer& tokenizer : tokenizers()) {
    if (tokenizer.name == name) return tokenizer;
    known.emplace_back(tokenizer.name);
  }
  throw UsageError(cat("--tokenize: got '", name, "'; expected one of ", join(known, ", "), did_you_mean(name, known)));
}

}  // namespace fovea::metrics
