#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// Finds out whether lines of columns apart by tabs were written by a spreadsheet, which puts a field in quotes if it
// has a quote, a tab or a line end, and writes "" for a quote within. In other text a quote is a quote.
class SpreadsheetLines {
 public:
  using TakeRecord = std::function<void(const std::vector<std::string>& columns)>;

  // Reads the next line, and gives `take` the columns of the record that it ends. A record may have several lines.
  // Once no spreadsheet can have written the lines, nothing is read any more.
  void add(std::string_view line, const TakeRecord& take);
  bool is_broken() const { return is_broken_; }
  // At the end: whether a spreadsheet wrote the lines. They show it by a field that needs its quotes; or all fields but
  // numbers are in quotes.
  bool is_spreadsheet() const {
    return !is_broken_ && !is_open_ && (has_needed_quotes_ || (has_quotes_ && all_quoted_));
  }

 private:
  void read_fields(std::string_view rest);
  bool read_quoted(std::string_view& rest);
  void end_record(const TakeRecord& take);

  std::vector<std::string> columns_;  // of the record so far; the last one is open if is_open_
  size_t usual_columns_ = 0;          // of the record before; 0: there is none
  bool is_open_ = false, is_broken_ = false;
  bool has_quotes_ = false, has_needed_quotes_ = false, all_quoted_ = true;
  bool has_lines_ = false;  // the record has several
};

}  // namespace fovea::text
