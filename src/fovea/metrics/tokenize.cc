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

// Sets stops apart but between digits, and dashes after digits.
std::u32string split_stops(std::u32string_view text) {
  std::u32string line =
      space_pairs(text, {U"", U" ", U" "}, [](char32_t a, char32_t b) { return !is_digit(a) && is_stop(b); });
  line = space_pairs(line, {U" ", U" ", U""}, [](char32_t a, char32_t b) { return is_stop(a) && !is_digit(b); });
  return space_pairs(line, {U"", U" ", U" "}, [](char32_t a, char32_t b) { return is_digit(a) && b == '-'; });
}

// The part that the 13a and zh tokenizers share.
std::u32string split_western(std::u32string_view text) { return split_stops(space_characters(text, is_separate)); }

std::u32string with_entities_as_characters(std::u32string line) {
  for (const auto& [entity, character] :
       {std::pair{U"&quot;", U"\""}, std::pair{U"&amp;", U"&"}, std::pair{U"&lt;", U"<"}, std::pair{U"&gt;", U">"}})
    line = replace_all(line, entity, character);
  return line;
}

std::u32string tokenize_13a(std::u32string_view text) {
  std::u32string line = replace_all(std::u32string(text), U"<skipped>", U"");
  line = replace_all(replace_all(line, U"-\n", U""), U"\n", U" ");
  return split_western(U" " + with_entities_as_characters(std::move(line)) + U" ");
}

struct CharacterRange {
  char32_t first, last;
};
bool is_in(std::span<const CharacterRange> ranges, char32_t c) {
  return std::ranges::any_of(ranges, [c](const CharacterRange& r) { return c >= r.first && c <= r.last; });
}

// The ranges of sacreBLEU's table as it works, not as it was meant: its two five-digit ranges are read as a character
// and a digit, so that the first covers U+2001 to U+2A6D (general punctuation, arrows, operators) and the ideographs of
// extension B stay unsplit.
bool is_chinese(char32_t c) {
  static constexpr auto kRanges = std::to_array<CharacterRange>({{0x2001, 0x2a6d},
                                                                 {0x2e80, 0x2eff},
                                                                 {0x2f00, 0x2fdf},
                                                                 {0x2ff0, 0x2fff},
                                                                 {0x3000, 0x303f},
                                                                 {0x3100, 0x312f},
                                                                 {0x31a0, 0x31bf},
                                                                 {0x31c0, 0x31ef},
                                                                 {0x3200, 0x33ff},
                                                                 {0x3400, 0x4db5},
                                                                 {0x4e00, 0x9fbb},
                                                                 {0xf900, 0xfa2d},
                                                                 {0xfa30, 0xfa6a},
                                                                 {0xfa70, 0xfad9},
                                                                 {0xfe10, 0xfe1f},
                                                                 {0xfe30, 0xfe4f},
                                                                 {0xff00, 0xffef}});
  return is_in(kRanges, c);
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

// The characters that sacreBLEU's TER sets apart with its Asian support, marks left out: ideographs, radicals, strokes
// and enclosed letters. One range reaches from U+3200 to U+3F22, as there. Kana stay together: the rule for them asks
// for kana at the beginning of the line, where a blank stands.
bool is_asian_letter(char32_t c) {
  static constexpr auto kRanges = std::to_array<CharacterRange>(
      {{0x2e80, 0x2eff}, {0x31c0, 0x31ef}, {0x3200, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0xfe30, 0xfe4f}});
  return is_in(kRanges, c);
}

bool is_asian_mark(char32_t c) {
  static constexpr auto kRanges = std::to_array<CharacterRange>({{0x3001, 0x3002},
                                                                 {0x3008, 0x3011},
                                                                 {0x3014, 0x301f},
                                                                 {0x30fb, 0x30fb},
                                                                 {0xff01, 0xff02},
                                                                 {0xff08, 0xff09},
                                                                 {0xff0c, 0xff0c},
                                                                 {0xff0e, 0xff0e},
                                                                 {0xff1a, 0xff1b},
                                                                 {0xff1f, 0xff1f},
                                                                 {0xff61, 0xff65}});
  return is_in(kRanges, c);
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

std::u32string normalize_tercom(std::u32string_view text, bool asian) {
  std::u32string line = U" " + with_entities_as_characters(std::u32string(text)) + U" ";
  line = replace_all(space_characters(line, is_separate), U"'s ", U" 's ");
  line = split_stops(line);
  if (!asian) return line;
  return space_characters(line, [](char32_t c) { return is_asian_letter(c) || is_asian_mark(c); });
}

std::u32string without_marks(std::u32string_view text, bool asian) {
  constexpr std::u32string_view kMarks = U".,?:;!\"()";
  std::u32string line(text);
  std::erase_if(line, [&](char32_t c) { return kMarks.find(c) != kMarks.npos || (asian && is_asian_mark(c)); });
  return line;
}

}  // namespace fovea::metrics
