#include "fovea/text/unicode.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/ucnv.h>
#include <unicode/ucnv_cb.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <array>
#include <memory>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/code_points.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

bool is_blank(UChar32 c) { return c <= ' ' || (c >= 0x7f && c <= 0xa0) || (c > 0xa0 && u_isUWhiteSpace(c) != 0); }

// Soft hyphen, zero-width space, word joiner, marks of direction, byte order mark; joiners stay, scripts need them.
bool is_invisible(UChar32 c) {
  return c == 0xad || c == 0x200b || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || c == 0x2060 ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

bool is_wide(UChar32 c) {
  const int32_t width = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH;
}

// Marks on the character before, the vowels and finals of a Korean syllable in parts, joiners and selectors. Terminals
// show a soft hyphen.
bool joins_the_one_before(UChar32 c) {
  const int32_t syllable = u_getIntPropertyValue(c, UCHAR_HANGUL_SYLLABLE_TYPE);
  return (U_MASK(u_charType(c)) & (U_GC_MN_MASK | U_GC_ME_MASK)) != 0 || syllable == U_HST_VOWEL_JAMO ||
         syllable == U_HST_TRAILING_JAMO || (c != 0xad && u_hasBinaryProperty(c, UCHAR_DEFAULT_IGNORABLE_CODE_POINT));
}

// Scripts that write words without blanks between them.
bool is_unspaced(UChar32 c) {
  if (c < 0x0e00) return false;
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(c, &status);
  static constexpr std::array kScripts = {USCRIPT_HAN, USCRIPT_HIRAGANA, USCRIPT_KATAKANA, USCRIPT_THAI,
                                          USCRIPT_LAO, USCRIPT_KHMER,    USCRIPT_MYANMAR,  USCRIPT_TIBETAN};
  return std::find(kScripts.begin(), kScripts.end(), script) != kScripts.end();
}

// U+FFFD for bytes that are not characters; ICU's own writes the control character U+001A for some of them.
void write_replacement(const void* /*context*/, UConverterToUnicodeArgs* arguments, const char* /*bytes*/,
                       int32_t /*length*/, UConverterCallbackReason reason, UErrorCode* status) {
  if (reason > UCNV_IRREGULAR) return;
  constexpr UChar kReplacement = 0xfffd;
  *status = U_ZERO_ERROR;
  ucnv_cbToUWriteUChars(arguments, &kReplacement, 1, 0, status);
}

icu::LocalUConverterPointer converter_of(const std::string& charset) {
  UErrorCode status = U_ZERO_ERROR;
  icu::LocalUConverterPointer converter(ucnv_open(charset.c_str(), &status));
  ucnv_setToUCallBack(converter.getAlias(), write_replacement, nullptr, nullptr, nullptr, &status);
  if (U_FAILURE(status))
    throw Error(cat("got the character set '", charset, "'; expected a known one, such as UTF-8 or ISO-8859-1"));
  return converter;
}

// The bytes of a text up to the end of a long row of marks.
size_t marked_part_size(std::string_view text) {
  constexpr int kMostMarks = 128;
  if (text.size() <= 2 * kMostMarks) return text.size();
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  int marks = 0;
  for (size_t i = 0; i < text.size();) {
    UChar32 c = 0;
    U8_NEXT(bytes, i, text.size(), c);
    marks = c >= 0 && u_getCombiningClass(c) != 0 ? marks + 1 : 0;
    if (marks == kMostMarks) return i;
  }
  return text.size();
}

std::string normalised_by(std::string_view text, const icu::Normalizer2* normalizer) {
  if (is_ascii(text) || normalizer == nullptr) return std::string(text);
  std::string out;
  for (size_t size = 0; !text.empty(); text.remove_prefix(size)) {
    size = marked_part_size(text);
    UErrorCode status = U_ZERO_ERROR;
    const auto units = icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(size)));
    const icu::UnicodeString normal = normalizer->normalize(units, status);
    if (U_SUCCESS(status)) {
      normal.toUTF8String(out);
    } else {
      out += text.substr(0, size);
    }
  }
  return out;
}

// Writes the text of a line that is cleaned, and where it differs.
class LineCleaner {
 public:
  using Keeps = std::function<bool(int32_t character)>;
  LineCleaner(std::string_view line, const Keeps& keeps) : line_(line), keeps_(keeps) {}

  CleanLine clean() {
    // An invisible mark keeps apart what would compose.
    std::string visible;
    visible.reserve(line_.size());
    each([&](UChar32 c, size_t begin, size_t end) {
      if (!is_dropped(c)) visible += line_.substr(begin, end - begin);
    });
    composes_ = nfc(visible) != visible;
    cleaned_.text.reserve(visible.size());
    each([&](UChar32 c, size_t begin, size_t end) { add(c, begin, end); });
    flush();
    if (is_made_blank_) drop_last_blank();
    return std::move(cleaned_);
  }

 private:
  // Calls visit(character, begin, end). Bytes that are not UTF-8 come as a negative number.
  template <class Visit>
  void each(const Visit& visit) const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(line_.data());
    for (size_t i = 0; i < line_.size();) {
      const size_t begin = i;
      UChar32 c = 0;
      U8_NEXT(bytes, i, line_.size(), c);
      visit(c, begin, i);
    }
  }

  bool is_dropped(UChar32 c) const { return is_invisible(c) && !keeps_(c); }

  bool begins_segment(UChar32 c) const {
    if (!composes_ || c < 0) return true;
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* normalizer = icu::Normalizer2::getNFCInstance(status);
    return U_FAILURE(status) || normalizer->hasBoundaryBefore(c) != 0;
  }

  void add(UChar32 c, size_t begin, size_t end) {
    if (is_dropped(c)) {
      is_changed_ = true;  // it counts to the segment before
      end_ = end;
      return;
    }
    if (begins_segment(c)) flush();
    segment_ += line_.substr(begin, end - begin);
    end_ = end;
  }

  // Writes the characters that compose with each other, and begins new ones.
  void flush() {
    if (segment_.empty()) return;
    if (composes_ && is_valid_utf8(segment_) && !is_kept(segment_)) {
      const std::string composed = nfc(segment_);
      is_changed_ = is_changed_ || composed != segment_;
      segment_ = composed;
    }
    const size_t first = cleaned_.text.size();
    const auto* bytes = reinterpret_cast<const uint8_t*>(segment_.data());
    for (size_t i = 0; i < segment_.size();) {
      const size_t begin = i;
      UChar32 c = 0;
      U8_NEXT(bytes, i, segment_.size(), c);
      write(c, std::string_view(segment_).substr(begin, i - begin));
    }
    if (is_changed_) cleaned_.changes.push_back({first, cleaned_.text.size(), begin_, end_});
    segment_.clear();
    is_changed_ = false;
    begin_ = end_;
  }

  void drop_last_blank() {
    cleaned_.text.pop_back();
    for (CleanLine::Change& change : cleaned_.changes) {
      change.begin = std::min(change.begin, cleaned_.text.size());
      change.end = std::min(change.end, cleaned_.text.size());
    }
  }

  bool is_kept(std::string_view characters) const {
    bool all = true;
    each_character(characters, [&](UChar32 c) { all = all && keeps_(c); });
    return all;
  }

  void write(UChar32 c, std::string_view bytes) {
    std::string& text = cleaned_.text;
    const bool makes_blank = c >= 0 && is_blank(c) && !keeps_(c);
    if (!makes_blank && !(c == ' ' && is_made_blank_)) {
      text += bytes;
      is_made_blank_ = false;
    } else if (makes_blank && !text.empty() && text.back() != ' ') {
      is_changed_ = is_changed_ || bytes != " ";
      text += ' ';
      is_made_blank_ = true;
    } else {
      is_changed_ = true;
    }
  }

  std::string_view line_;
  const Keeps& keeps_;
  bool composes_ = false;
  std::string segment_;
  size_t begin_ = 0, end_ = 0;  // of the segment, in the line
  bool is_changed_ = false, is_made_blank_ = false;
  CleanLine cleaned_;
};

}  // namespace

std::string nfc(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  return normalised_by(text, icu::Normalizer2::getNFCInstance(status));
}

std::string nfd(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  return normalised_by(text, icu::Normalizer2::getNFDInstance(status));
}

std::string normalise(std::string_view text) {
  return LineCleaner(text, [](int32_t) { return false; }).clean().text;
}

std::optional<CleanLine> clean_line(std::string_view line, const std::function<bool(int32_t character)>& keeps) {
  if (std::ranges::all_of(line, [](char c) { return c >= ' ' && c < 0x7f; })) return std::nullopt;
  CleanLine cleaned = LineCleaner(line, keeps).clean();
  if (cleaned.text == line) return std::nullopt;
  return cleaned;
}

size_t CleanLine::line_begin(size_t at) const {
  const auto next = std::ranges::upper_bound(changes, at, {}, &Change::begin);
  if (next == changes.begin()) return at;
  const Change& last = *std::prev(next);
  return at < last.end ? last.line_begin : last.line_end + (at - last.end);
}

size_t CleanLine::line_end(size_t at) const {
  const auto next = std::ranges::lower_bound(changes, at, {}, &Change::begin);
  if (next == changes.begin()) return at;
  const Change& last = *std::prev(next);
  return at <= last.end ? last.line_end : last.line_end + (at - last.end);
}

size_t leading_blanks_size(std::string_view text) {
  size_t size = 0;
  while (size < text.size() && white_space_size(text.substr(size)) > 0) size += white_space_size(text.substr(size));
  return size;
}

size_t trailing_blanks_size(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    if (white_space_size(text.substr(begin, end - begin)) != end - begin) break;
    end = begin;
  }
  return text.size() - end;
}

int64_t terminal_columns(std::string_view text) {
  int64_t columns = 0;
  each_character(text, [&columns](UChar32 c) {
    if (!joins_the_one_before(c)) columns += is_wide(c) ? 2 : 1;
  });
  return columns;
}

std::string lower_case(std::string_view text) {
  if (is_ascii(text)) return lower(text);
  constexpr UChar32 kDottedCapitalI = 0x130;  // the only character whose lower case is two
  std::string out;
  each_character(text, [&](UChar32 c) {
    if (c == kDottedCapitalI) {
      out += "i\u0307";
    } else {
      append_character(out, u_tolower(c));
    }
  });
  return out;
}

std::string folded(std::string_view text) {
  std::string cases;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .foldCase()
      .toUTF8String(cases);
  std::string out;
  each_character(cases, [&out](UChar32 c) {
    if (u_isalnum(c) != 0 || (U_MASK(u_charType(c)) & U_GC_M_MASK) != 0) {
      append_character(out, c);
    } else if (!out.empty() && out.back() != ' ') {
      out.push_back(' ');
    }
  });
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out.empty() ? std::string(text) : out;
}

std::vector<std::string> folded_words(std::string_view text) { return split_words(folded(text)); }

Measure measure(std::string_view text) {
  Measure result;
  bool in_word = false;
  each_character(text, [&](UChar32 c) {
    ++result.characters;
    if (u_isalpha(c) != 0) ++result.letters;
    if (is_unspaced(c)) {
      result.words += 0.5;
      in_word = false;
    } else if (is_blank(c)) {
      in_word = false;
    } else if (!in_word) {
      ++result.words;
      in_word = true;
    }
  });
  return result;
}

std::string to_utf8(std::string_view text, const std::string& charset) {
  const icu::LocalUConverterPointer from = converter_of(charset), to = converter_of("UTF-8");
  UErrorCode status = U_ZERO_ERROR;
  // Part by part: ICU's strings hold no more than 2^31 - 1 units.
  std::string out;
  std::array<char, 1 << 14> part;
  std::array<UChar, 1 << 12> pivot;
  UChar *pivot_from = pivot.data(), *pivot_to = pivot.data();
  const char* next = text.data();
  bool is_first = true;
  do {
    status = U_ZERO_ERROR;
    char* part_end = part.data();
    ucnv_convertEx(to.getAlias(), from.getAlias(), &part_end, part.data() + part.size(), &next,
                   text.data() + text.size(), pivot.data(), &pivot_from, &pivot_to, pivot.data() + pivot.size(),
                   is_first, true, &status);
    out.append(part.data(), part_end);
    is_first = false;
  } while (status == U_BUFFER_OVERFLOW_ERROR);
  if (U_FAILURE(status)) throw Error(cat("cannot convert from '", charset, "': ", u_errorName(status)));
  return out;
}

std::function<size_t(std::string_view text)> character_length_in(const std::string& charset) {
  const auto converter = std::make_shared<icu::LocalUConverterPointer>(converter_of(charset));
  return [converter](std::string_view text) -> size_t {
    const char* next = text.data();
    UErrorCode status = U_ZERO_ERROR;
    // The second of two code points that stand for one character takes no byte.
    while (next == text.data() && U_SUCCESS(status))
      ucnv_getNextUChar((*converter).getAlias(), &next, text.data() + text.size(), &status);
    return std::max<size_t>(static_cast<size_t>(next - text.data()), 1);
  };
}

}  // namespace fovea::text
