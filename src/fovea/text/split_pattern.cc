#include "fovea/text/split_pattern.h"

#include <unicode/regex.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <limits>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// Characters of words in Oniguruma: six of Latin-1 are not in Unicode's class.
constexpr std::string_view kOfWords = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\u00b2\u00b3\u00b9\u00bc-\u00be";
constexpr std::string_view kHexDigits = "0-9a-fA-F";

// The tokenisers' expressions are Oniguruma's, some of whose classes are different.
std::string for_icu(std::string_view pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      text += pattern[i];
      continue;
    }
    switch (const char escaped = pattern[++i]) {
      case 's':
        text += "\\p{White_Space}";
        break;
      case 'S':
        text += "\\P{White_Space}";
        break;
      case 'w':
        text += cat("[", kOfWords, "]");
        break;
      case 'W':
        text += cat("[^", kOfWords, "]");
        break;
      case 'h':
        text += cat("[", kHexDigits, "]");
        break;
      case 'H':
        text += cat("[^", kHexDigits, "]");
        break;
      default:
        text += {'\\', escaped};
    }
  }
  return text;
}

// A match may take this long, in units of about a millisecond, as ICU counts: no expression of a tokeniser takes one.
constexpr int32_t kTimeLimit = 10'000;

}  // namespace

struct SplitPattern::Compiled {
  std::unique_ptr<icu::RegexPattern> pattern;
};

SplitPattern::SplitPattern(const std::string& pattern, const std::string& origin) {
  if (!is_valid_utf8(pattern)) throw Error(cat(origin, ": the pattern is not UTF-8"));
  UErrorCode status = U_ZERO_ERROR;
  UParseError place{};
  auto compiled = std::make_shared<Compiled>();
  // In Oniguruma, ^ and $ stand at every line, and only \n ends one.
  compiled->pattern.reset(icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(for_icu(pattern)),
                                                     UREGEX_MULTILINE | UREGEX_UNIX_LINES, place, status));
  if (U_FAILURE(status))
    throw Error(cat(origin, ": '", pattern, "' is not a regular expression (", u_errorName(status), ")"));
  compiled_ = std::move(compiled);
}

void SplitPattern::split(std::string_view text, const std::function<void(std::string_view part)>& visit) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw Error(cat("a text of ", text.size(), " bytes without a place to cut it; expected less than 2 GiB"));
  const auto units = icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(compiled_->pattern->matcher(units, status));
  if (U_SUCCESS(status)) matcher->setTimeLimit(kTimeLimit, status);
  // ICU counts units of UTF-16; `at` is the same place in the text.
  size_t at = 0, begin = 0;
  int32_t unit = 0;
  const auto byte_of = [&](int32_t wanted) {
    while (unit < wanted && at < text.size()) {
      const auto first = static_cast<unsigned char>(text[at]);
      const size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
      at = std::min(at + size, text.size());
      unit += size == 4 ? 2 : 1;
    }
    return at;
  };
  while (U_SUCCESS(status) && matcher->find(status) != 0) {
    const size_t first = byte_of(matcher->start(status)), last = byte_of(matcher->end(status));
    if (begin < first) visit(text.substr(begin, first - begin));
    if (first < last) visit(text.substr(first, last - first));  // an empty match splits the text too
    begin = last;
  }
  if (U_FAILURE(status))
    throw Error(
        cat("the tokeniser's pattern takes too long or too much memory on the text (", u_errorName(status), ")"));
  if (begin < text.size()) visit(text.substr(begin));
}

}  // namespace fovea::text
