#include "fovea/text/terms.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fovea/text/csv.h"

#include "loaders/loaders.h"

namespace fovea::fuzz {

// A term's own source is found as one place of its words.
void load_terms(std::string_view bytes) {
  const text::TermList terms = text::TermList::from_text(bytes, "terms");
  for (const text::Term& term : terms.terms()) {
    const auto places = terms.find(term.source);
    require(places.size() == 1, "a source is not found in itself");
    const bool has_target =
        std::ranges::any_of(places.front(), [&](size_t t) { return terms.terms().at(t).target == term.target; });
    require(has_target, "a source is found without its target");
  }
}

// Records that are written with quotes around every field are read as what they were.
void load_csv(std::string_view bytes) {
  const std::vector<text::CsvRecord> records = text::parse_csv(bytes, "csv");
  std::string written;
  for (const text::CsvRecord& record : records) {
    for (const std::string& field : record.fields) {
      written += written.empty() || written.back() == '\n' ? "\"" : ",\"";
      for (const char c : field) written += c == '"' ? "\"\"" : std::string(1, c);
      written += '"';
    }
    written += '\n';
  }
  const std::vector<text::CsvRecord> again = text::parse_csv(written, "csv");
  require(std::ranges::equal(records, again, {}, &text::CsvRecord::fields, &text::CsvRecord::fields),
          "records change as they are written");
}

}  // namespace fovea::fuzz
