#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace fovea::data {

// Finds documents that lines without visible text (base/empty_line.h) separate.
class DocumentFinder {
 public:
  // The places in `text` at which a document begins, except the first of all. Each text continues the one before, and
  // none ends inside a character.
  std::vector<size_t> find(std::string_view text);

 private:
  bool seen_text_ = false;     // in any line
  bool after_blank_ = false;   // there was a line without text behind the last text
  bool line_is_blank_ = true;  // the line that goes on, so far
};

}  // namespace fovea::data
