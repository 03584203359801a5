#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fovea::language {

// Lets a text through part by part, up to the first of some stops. Text that may begin a stop is held back.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Returns the text that is certain now. Behind a stop there is none.
  std::string push(std::string_view text);
  // The text has ended: returns what was held back.
  std::string finish();
  bool has_stopped() const { return has_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool has_stopped_ = false;
};

}  // namespace fovea::language
