#include "fovea/data/document_finder.h"

#include "fovea/base/empty_line.h"

namespace fovea::data {

std::vector<size_t> DocumentFinder::find(std::string_view text) {
  std::vector<size_t> begins;
  size_t line = 0;  // where it begins
  for (size_t at = 0; at < text.size();) {
    if (line_is_blank_) {
      while (at < text.size() && text[at] != '\n') {
        const size_t size = unseen_size(text.substr(at));
        if (size == 0) break;
        at += size;
      }
      if (at == text.size()) break;
      if (text[at] == '\n') {
        after_blank_ = true;
        line = ++at;
        continue;
      }
      if (after_blank_ && seen_text_) begins.push_back(line);
      seen_text_ = true;
      after_blank_ = line_is_blank_ = false;
    }
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    line_is_blank_ = true;
    line = at = end + 1;
  }
  return begins;
}

}  // namespace fovea::data
