#include "fovea/text/long_lines.h"

#include <algorithm>

#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

constexpr size_t kWindowStep = 1024;  // two of these are a window, so that each place is inside of one

// The first place from `at` on at which a character begins.
size_t next_character_begin(std::string_view text, size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return std::min(at, text.size());
}

std::string_view line_between(std::string_view text, size_t begin, size_t end) {
  return text.substr(begin, end - begin);
}

bool ends_in_blank(std::string_view text) {
  size_t last = text.size() - 1;
  while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
  return white_space_size(text.substr(last)) > 0;
}

// Whether some window at places far apart is unknown: most lines have none, and are read no second time.
bool may_have_run(std::string_view line, const std::function<bool(std::string_view)>& is_unknown) {
  for (size_t at = 0; at + kLongLine <= line.size(); at += kLongLine / 2) {
    const size_t begin = next_character_begin(line, at);
    if (is_unknown(line_between(line, begin, next_character_begin(line, begin + kWindowStep / 2)))) return true;
  }
  return false;
}

}  // namespace

size_t ShortLine::in_line(size_t at) const {
  const auto next = std::ranges::lower_bound(cuts, at, {}, &Cut::at);
  return next == cuts.begin() ? at : at + std::prev(next)->bytes;
}

bool ShortLine::has_cut(size_t begin, size_t end) const {
  const auto cut = std::ranges::upper_bound(cuts, begin, {}, &Cut::at);
  return cut != cuts.end() && cut->at < end;
}

ShortLine without_long_runs(std::string_view line, const std::function<bool(std::string_view text)>& is_unknown) {
  ShortLine result;
  if (!may_have_run(line, is_unknown)) {
    result.text = line;
    return result;
  }
  std::vector<size_t> places = {0};
  while (places.back() < line.size()) places.push_back(next_character_begin(line, places.back() + kWindowStep));
  size_t kept = 0;  // the line is in the text up to here
  for (size_t i = 0; i + 2 < places.size();) {
    size_t last = i;  // the windows from i up to here are unknown
    while (last + 2 < places.size() && is_unknown(line_between(line, places[last], places[last + 2]))) ++last;
    if (last > i + 1) {
      const size_t begin = places[i + 1], end = places[last];
      result.text += line_between(line, kept, begin);
      result.cuts.push_back({result.text.size(), end - result.text.size()});
      kept = end;
    }
    i = std::max(last, i + 1);
  }
  result.text += line.substr(kept);
  return result;
}

std::vector<std::string_view> parts_of_line(std::string_view line, PartEnd end, size_t least) {
  std::vector<std::string_view> parts;
  while (line.size() > least) {
    size_t at = next_character_begin(line, least);
    if (end == PartEnd::kWord)
      while (at < line.size() && (line[at] != ' ' || ends_in_blank(line.substr(0, at)))) ++at;
    parts.push_back(line.substr(0, at));
    line.remove_prefix(at);
  }
  if (!line.empty()) parts.push_back(line);
  return parts;
}

}  // namespace fovea::text
