#include "fovea/tasks/language/stop_texts.h"

#include <algorithm>
#include <utility>

namespace fovea::language {

std::string StopTexts::push(std::string_view text) {
  if (has_stopped_) return {};
  held_ += text;
  size_t end = held_.size(), certain = held_.size();
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    end = std::min(end, held_.find(stop));
    // The longest end of the text that begins the stop.
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > 0; --size) {
      if (!held_.ends_with(std::string_view(stop).substr(0, size))) continue;
      certain = std::min(certain, held_.size() - size);
      break;
    }
  }
  has_stopped_ = end < held_.size();
  const std::string result = held_.substr(0, has_stopped_ ? end : certain);
  held_ = has_stopped_ ? std::string() : held_.substr(certain);
  return result;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

}  // namespace fovea::language
