#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// A record of comma-separated values (RFC 4180).
struct CsvRecord {
  std::vector<std::string> fields;
  int64_t line = 0;  // its first line, from 1
};

// Reads records whose fields may stand in double quotes: such a field may have commas and line ends, and "" is a quote.
// Empty lines are left out. `name` says in messages where the text comes from. Throws an Error that names the line if
// a quote has no end or something follows it, or for bytes that are not text.
std::vector<CsvRecord> parse_csv(std::string_view text, const std::string& name);

}  // namespace fovea::text
