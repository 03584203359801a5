#include "fovea/text/spreadsheet_lines.h"

#include <algorithm>

namespace fovea::text {
namespace {

bool is_number(std::string_view field) { return field.find_first_not_of("0123456789.,-+ ") == std::string_view::npos; }

}  // namespace

void SpreadsheetLines::add(std::string_view line, const TakeRecord& take) {
  if (is_broken_) return;
  if (is_open_) {
    columns_.back() += '\n';
    has_lines_ = true;
    if (!read_quoted(line)) return;
    // A column with both is more likely text between two quotes that have nothing to do with each other.
    is_broken_ = is_broken_ || columns_.back().find('\t') != std::string::npos;
    if (!line.empty()) {
      line.remove_prefix(1);  // the tab
      read_fields(line);
    }
  } else {
    read_fields(line);
  }
  if (!is_open_ && !is_broken_) end_record(take);
}

void SpreadsheetLines::read_fields(std::string_view rest) {
  for (;;) {
    columns_.emplace_back();
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      has_quotes_ = true;
      if (!read_quoted(rest)) return;
      has_needed_quotes_ = has_needed_quotes_ || columns_.back().find_first_of("\"\t") != std::string::npos;
    } else {
      const std::string_view field = rest.substr(0, rest.find('\t'));
      if (field.find('"') != std::string_view::npos) is_broken_ = true;
      all_quoted_ = all_quoted_ && is_number(field);
      columns_.back() = field;
      rest.remove_prefix(field.size());
    }
    if (is_broken_ || rest.empty()) return;
    rest.remove_prefix(1);  // the tab
  }
}

// Reads up to behind the closing quote, or to the end of the line, and returns whether the column ends. Only a tab may
// follow it.
bool SpreadsheetLines::read_quoted(std::string_view& rest) {
  for (;;) {
    const size_t end = std::min(rest.find('"'), rest.size());
    columns_.back() += rest.substr(0, end);
    is_open_ = end == rest.size();
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_open_) return false;
    if (!rest.starts_with('"')) break;
    columns_.back() += '"';
    has_needed_quotes_ = true;
    rest.remove_prefix(1);
  }
  is_broken_ = is_broken_ || (!rest.empty() && rest[0] != '\t');
  return !is_broken_;
}

void SpreadsheetLines::end_record(const TakeRecord& take) {
  const bool is_usual = usual_columns_ == 0 || columns_.size() == usual_columns_;
  if (has_lines_) {
    is_broken_ = !is_usual;
    has_needed_quotes_ = true;
  }
  usual_columns_ = columns_.size();
  has_lines_ = false;
  if (!is_broken_) take(columns_);
  columns_.clear();
}

}  // namespace fovea::text
