#include "fovea/text/column_shape.h"

#include <algorithm>
#include <charconv>

#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

constexpr size_t kConllUColumns = 10, kNumberedColumns = 3;

bool is_column_digit(char c) { return c >= '0' && c <= '9'; }
bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_label_letter(char c) { return is_small_letter(c) || (c >= 'A' && c <= 'Z'); }
bool has_small_letter(std::string_view text) { return std::ranges::any_of(text, is_small_letter); }

// A label of a chunk, in whatever form: "B-PER", "PER_I".
bool looks_like_chunk_label(std::string_view value) {
  const size_t size = value.size();
  const auto separates = [](char c) { return std::string_view("-_/:.|").find(c) != std::string_view::npos; };
  return size >= 3 && ((is_label_letter(value[0]) && separates(value[1])) ||
                       (is_label_letter(value[size - 1]) && separates(value[size - 2])));
}

int64_t number_in(std::string_view digits) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() && std::ranges::all_of(digits, is_column_digit)
             ? number
             : -1;
}

}  // namespace

ColumnShape::Separators ColumnShape::separators_of(std::string_view line) {
  const std::string_view inner = trim(line);
  const bool has_tab = inner.find('\t') != std::string_view::npos,
             has_blank = inner.find(' ') != std::string_view::npos;
  if (has_tab) return has_blank ? Separators::kBoth : Separators::kTabs;
  return has_blank ? Separators::kBlanks : Separators::kNone;
}

ColumnShape::Value ColumnShape::kind_of_value(std::string_view value) {
  if (value == "O" || value == "o" || value == "_" || value == "-" || value == "#") return Value::kLabel;
  if (value.find('=') != std::string_view::npos) return Value::kPair;
  if (looks_like_chunk_label(value)) return Value::kLabel;
  if (std::ranges::all_of(value, is_column_digit)) return Value::kNumber;
  return has_small_letter(value) ? Value::kLower : Value::kOther;
}

void ColumnShape::add(std::string_view line, std::span<const std::string> columns) {
  counts_.insert(columns.size());
  separators_.insert(separators_of(line));
  values_.insert(columns.back());
  kinds_.insert(kind_of_value(columns.back()));
}

bool ColumnShape::is_plausible(const std::string& value) const {
  const Value kind = kind_of_value(value);
  return values_.contains(value) || kind == Value::kLabel || kinds_.contains(kind);
}

ColumnShape::Verdict ColumnShape::verdict(std::string_view line, std::span<const std::string> columns) const {
  if (!counts_.contains(columns.size())) return Verdict::kByForm;
  const size_t key = columns.front() == "#" ? 1 : 0;
  const bool may_be_word = key == 0 && is_plausible(columns.back());  // "#tag"
  if (columns.size() > 1 && !separators_.contains(separators_of(line)) && !may_be_word) return Verdict::kByForm;
  if (columns.size() > key + 2 && columns[key + 1] == "=") return Verdict::kByForm;
  if (columns.size() < 2 || is_plausible(columns.back())) return Verdict::kWord;
  const Value kind = kind_of_value(columns.back());
  const bool is_told = has_small_letter(columns[1]) || kind == Value::kNumber || kind == Value::kPair;
  return is_told ? Verdict::kByValue : Verdict::kWord;
}

int64_t word_number(std::string_view column) {
  if (const int64_t number = number_in(column); number > 0) return number;
  const size_t mark = column.find_first_of("-.");
  if (mark == std::string_view::npos) return -1;
  const bool is_aside = number_in(column.substr(0, mark)) >= 0 && number_in(column.substr(mark + 1)) > 0;
  return is_aside ? 0 : -1;
}

Numbering numbering_of(std::span<const std::vector<std::string>> lines) {
  int64_t words = 0;
  bool has_aside = false, reads_as_words = false, is_conll_u = true;
  for (const std::vector<std::string>& columns : lines) {
    const int64_t number = word_number(columns.front());
    if (columns.size() < kNumberedColumns || (number != 0 && number != words + 1)) return Numbering::kNone;
    has_aside = has_aside || number == 0;
    words += number == 0 ? 0 : 1;
    is_conll_u = is_conll_u && columns.size() == kConllUColumns;
    const auto is_of_word = [](char c) { return is_small_letter(c) || static_cast<unsigned char>(c) >= 0x80; };
    reads_as_words = reads_as_words || std::ranges::any_of(columns[1], is_of_word);
  }
  if (words == 0) return Numbering::kNone;
  return is_conll_u || (reads_as_words && (words > 1 || has_aside)) ? Numbering::kSure : Numbering::kPerhaps;
}

}  // namespace fovea::text
