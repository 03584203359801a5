#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace fovea::text {

// A regular expression of a tokeniser, which may look ahead.
class SplitPattern {
 public:
  // Throws an Error that begins with `origin` if `pattern` is not one.
  SplitPattern(const std::string& pattern, const std::string& origin);
  // Shows `visit` the parts of UTF-8 text, in their order: its matches, and the text between them. Together they are
  // the text. Throws an Error if the expression takes too long.
  void split(std::string_view text, const std::function<void(std::string_view part)>& visit) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace fovea::text
