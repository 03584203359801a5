#include "fovea/serve/api_keys.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea::serve {
namespace {

// Looks at every byte of the longer text, whatever the shorter one is.
bool is_same(std::string_view left, std::string_view right) {
  unsigned difference = left.size() == right.size() ? 0 : 1;
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const char a = i < left.size() ? left[i] : '\0', b = i < right.size() ? right[i] : '\1';
    difference |= static_cast<unsigned char>(a) ^ static_cast<unsigned char>(b);
  }
  return difference == 0;
}

// The key of a header Authorization; "" if it has another form.
std::string_view key_of_scheme(std::string_view given) {
  for (const std::string_view scheme : {"Bearer ", "DeepL-Auth-Key "})
    if (given.size() > scheme.size() && lower(given.substr(0, scheme.size())) == lower(scheme))
      return trim(given.substr(scheme.size()));
  return {};
}

}  // namespace

ApiKeys::ApiKeys(const std::string& path) {
  if (path.empty()) return;
  for (const std::string& line : read_lines(path))
    if (const std::string_view key = trim(line); !key.empty()) keys_.emplace_back(key);
  if (keys_.empty()) throw Error(cat("--api-key: '", path, "' has no key; expected a key per line"));
}

bool ApiKeys::accept(std::string_view key) const {
  bool is_known = keys_.empty();
  for (const std::string& known : keys_) is_known = is_same(key, known) || is_known;
  return is_known;
}

bool ApiKeys::accept_headers(const Request& request) const {
  bool is_known = keys_.empty();
  for (const auto& [name, value] : request.headers) {
    if (lower(name) == "x-api-key") is_known = accept(value) || is_known;
    if (lower(name) == "authorization") is_known = accept(key_of_scheme(value)) || is_known;
  }
  return is_known;
}

std::string ApiKeys::masked(std::string text) const {
  constexpr std::string_view kMask = "***";
  for (const std::string& key : keys_) {
    for (size_t place = text.find(key); place != std::string::npos; place = text.find(key, place + kMask.size()))
      text.replace(place, key.size(), kMask);
  }
  return text;
}

}  // namespace fovea::serve
