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
  const std::string_view given = request.header("authorization");
  for (const std::string_view scheme : {"Bearer ", "DeepL-Auth-Key "})
    if (given.size() > scheme.size() && lower(given.substr(0, scheme.size())) == lower(scheme))
      return accept(trim(given.substr(scheme.size())));
  return accept(request.header("x-api-key"));
}

}  // namespace fovea::serve
