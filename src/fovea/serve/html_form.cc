#include "fovea/serve/html_form.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::serve {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string form_text(std::string_view encoded) {
  std::string with_blanks(encoded);
  for (char& c : with_blanks)
    if (c == '+') c = ' ';
  std::optional<std::string> text = percent_decoded(with_blanks);
  if (!text) throw Error("the form has a '%' without two hexadecimal digits after it; write %25 for a percent sign");
  if (!is_valid_utf8(*text)) throw Error("the form has bytes that are not UTF-8; send the text in UTF-8");
  return std::move(*text);
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit_of(text[i + 1]), low = digit_of(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(16 * high + low);
    i += 2;
  }
  return decoded;
}

FormFields parse_form(std::string_view text) {
  FormFields fields;
  while (!text.empty()) {
    const size_t end = text.find('&');
    const std::string_view field = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (field.empty()) continue;
    const size_t equals = field.find('=');
    fields.emplace_back(form_text(field.substr(0, equals)),
                        equals == std::string_view::npos ? std::string() : form_text(field.substr(equals + 1)));
  }
  return fields;
}

}  // namespace fovea::serve
