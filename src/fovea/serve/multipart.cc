#include "fovea/serve/multipart.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::serve {
namespace {

// The value of a header as its first word and its parameters, by their names in lower case: form-data; name="q".
struct HeaderValue {
  std::string word;
  std::map<std::string, std::string> parameters;
};

// Removes a parameter's value from the beginning of the text, a quoted one or one up to a semicolon.
std::string take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    value = trim(text.substr(0, text.find(';')));
    text.remove_prefix(std::min(text.find(';'), text.size()));
    return value;
  }
  size_t i = 1;
  for (; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    value += text[i];
  }
  text.remove_prefix(std::min(i + 1, text.size()));
  return value;
}

HeaderValue header_value(std::string_view text) {
  HeaderValue value;
  value.word = lower(trim(text.substr(0, text.find(';'))));
  text.remove_prefix(std::min(text.find(';'), text.size()));
  while (text.starts_with(';')) {
    text = trim(text.substr(1));
    const size_t equals = text.find_first_of("=;");
    if (equals == std::string_view::npos || text[equals] == ';') {  // a parameter without a value
      text.remove_prefix(std::min(equals, text.size()));
      continue;
    }
    const std::string name = lower(trim(text.substr(0, equals)));
    text = trim(text.substr(equals + 1));
    value.parameters.emplace(name, take_value(text));
    text.remove_prefix(std::min(text.find(';'), text.size()));
  }
  return value;
}

std::string_view next_line(std::string_view& lines) {
  const size_t end = std::min(lines.find("\r\n"), lines.size());
  const std::string_view line = lines.substr(0, end);
  lines.remove_prefix(std::min(end + 2, lines.size()));
  return line;
}

// The name of the field whose headers these are.
std::string field_name(std::string_view headers) {
  HeaderValue disposition;
  while (!headers.empty()) {
    const std::string_view line = next_line(headers);
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string header = lower(trim(line.substr(0, colon)));
    const std::string_view text = line.substr(std::min(colon + 1, line.size()));
    if (header == "content-disposition") disposition = header_value(text);
    if (header == "content-transfer-encoding" && lower(trim(text)) != "8bit" && lower(trim(text)) != "binary" &&
        lower(trim(text)) != "7bit")
      throw Error(cat("form: got the Content-Transfer-Encoding '", trim(text), "'; send the field as it is"));
  }
  const auto& parameters = disposition.parameters;
  if (disposition.word != "form-data" || !parameters.contains("name"))
    throw Error("form: a part has no name; expected Content-Disposition: form-data; name=\"FIELD\"");
  if (parameters.contains("filename") || parameters.contains("filename*"))
    throw Error(cat("form: the field '", parameters.at("name"), "' is a file; send its text as a field"));
  return parameters.at("name");
}

// `part`: the line end behind a boundary, headers, an empty line, and the value.
std::pair<std::string, std::string> field_of(std::string_view part) {
  part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));  // that a transport may add
  const size_t end = part.find("\r\n\r\n");
  if (!part.starts_with("\r\n") || end == std::string_view::npos)
    throw Error("form: a part has no headers; expected lines that end with CR and LF, and an empty one");
  std::string name = field_name(part.substr(2, std::max<size_t>(end, 2) - 2));
  std::string value(part.substr(end + 4));
  if (!is_valid_utf8(name) || !is_valid_utf8(value))
    throw Error("form: a field has bytes that are not UTF-8; send the text in UTF-8");
  return {std::move(name), std::move(value)};
}

}  // namespace

FormFields parse_multipart(std::string_view body, std::string_view type) {
  constexpr size_t kLongest = 70;  // RFC 2046
  const HeaderValue value = header_value(type);
  const auto boundary = value.parameters.find("boundary");
  if (boundary == value.parameters.end() || boundary->second.empty() || boundary->second.size() > kLongest)
    throw Error("Content-Type: expected a boundary of 1 to 70 characters, as in multipart/form-data; boundary=x");
  const std::string delimiter = cat("\r\n--", boundary->second);
  const bool begins = body.starts_with(std::string_view(delimiter).substr(2));
  const size_t first = begins ? 0 : body.find(delimiter);
  if (first == std::string_view::npos) throw Error("form: the body does not have the boundary of its Content-Type");
  std::string_view rest = body.substr(first + delimiter.size() - (begins ? 2 : 0));
  FormFields fields;
  while (!rest.starts_with("--")) {
    const size_t end = rest.find(delimiter);
    if (end == std::string_view::npos) throw Error("form: the body ends before its last boundary");
    fields.push_back(field_of(rest.substr(0, end)));
    rest.remove_prefix(end + delimiter.size());
  }
  return fields;
}

}  // namespace fovea::serve
