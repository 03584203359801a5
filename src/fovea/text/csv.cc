#include "fovea/text/csv.h"

#include <algorithm>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  std::vector<CsvRecord> read() {
    std::vector<CsvRecord> records;
    while (!rest_.empty()) {
      CsvRecord record{.fields = {}, .line = line_};
      do record.fields.push_back(field());
      while (take(","));
      take_line_end();
      if (record.fields != std::vector<std::string>{""}) records.push_back(std::move(record));
    }
    return records;
  }

 private:
  bool take(std::string_view next) {
    if (!rest_.starts_with(next)) return false;
    rest_.remove_prefix(next.size());
    return true;
  }

  void take_line_end() {
    if (take("\r\n") || take("\n") || take("\r")) ++line_;
  }

  std::string field() {
    if (take("\"")) return quoted_field();
    const size_t end = std::min(rest_.find_first_of(",\r\n"), rest_.size());
    std::string value(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return value;
  }

  std::string quoted_field() {
    const int64_t first = line_;
    std::string value;
    for (;;) {
      const size_t end = rest_.find('"');
      if (end == std::string_view::npos)
        throw Error(cat(name_, ", line ", first, ": a quote has no end; expected \"...\", with \"\" for a quote"));
      value += rest_.substr(0, end);
      line_ += std::ranges::count(rest_.substr(0, end), '\n');
      rest_.remove_prefix(end + 1);
      if (!take("\"")) break;
      value += '"';
    }
    if (!rest_.empty() && rest_.find_first_of(",\r\n") != 0)
      throw Error(cat(name_, ", line ", line_,
                      ": got more behind a closing quote; expected a comma or a line end, or \"\" for a quote"));
    return value;
  }

  std::string_view rest_;
  const std::string& name_;
  int64_t line_ = 1;
};

}  // namespace

std::vector<CsvRecord> parse_csv(std::string_view text, const std::string& name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (const std::optional<BadByte> bad = find_bad_byte(text)) {
    const auto line = 1 + std::ranges::count(text.substr(0, bad->at), '\n');
    throw Error(cat(name, ", line ", line, ": ", bad->why));
  }
  return CsvReader(text, name).read();
}

}  // namespace fovea::text
