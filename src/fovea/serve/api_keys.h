#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fovea/serve/http.h"

namespace fovea::serve {

// The keys that clients must know.
class ApiKeys {
 public:
  ApiKeys() = default;
  // Reads a file with a key per line; "" means that no key is asked for. Throws an Error if the file has no key.
  explicit ApiKeys(const std::string& path);

  bool are_asked_for() const { return !keys_.empty(); }
  // Takes as long for a wrong key as for a right one.
  bool accept(std::string_view key) const;
  // Whether any header of the request has a right key: "Authorization: Bearer K", "Authorization: DeepL-Auth-Key K" or
  // "X-API-Key: K".
  bool accept_headers(const Request& request) const;
  std::string masked(std::string text) const;  // with asterisks for the keys in it

 private:
  std::vector<std::string> keys_;
};

}  // namespace fovea::serve
