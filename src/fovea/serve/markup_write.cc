#include <algorithm>
#include <map>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/serve/markup.h"

namespace fovea::serve {
namespace {

// Words [begin, end) of the source or of the translation.
struct Words {
  int64_t begin = 0, end = 0;
};

struct PlacedMark {
  const InlineMark* mark;
  Words place = {};  // in the translation
  std::vector<size_t> children = {};
};

// Finds the places of marks in the translation. Children lie within their parent, side by side, so the tags nest.
class MarkPlaces {
 public:
  MarkPlaces(const MarkupPart& part, int64_t source_words, int64_t target_words, const analysis::Links& links)
      : sources_(static_cast<size_t>(target_words)) {
    for (const analysis::Link& link : links)
      if (link.target >= 0 && link.target < target_words)
        sources_[static_cast<size_t>(link.target)].push_back(link.source);
    for (const InlineMark& mark : part.marks) marks_.push_back({&mark});
    for (size_t i = 0; i < marks_.size(); ++i) {
      const int64_t parent = marks_[i].mark->parent;
      (parent < 0 ? roots_ : marks_[static_cast<size_t>(parent)].children).push_back(i);
    }
    place(roots_, {0, source_words}, {0, target_words});
    for (PlacedMark& placed : marks_)  // parents come before their children
      place(placed.children, {placed.mark->begin, placed.mark->end}, placed.place);
  }

  const std::vector<size_t>& roots() const { return roots_; }
  const PlacedMark& operator[](size_t i) const { return marks_[i]; }

 private:
  bool is_linked(int64_t target, const Words& source) const {
    return std::ranges::any_of(sources_[static_cast<size_t>(target)],
                               [&](int64_t s) { return s >= source.begin && s < source.end; });
  }
  Words place_of(const InlineMark& mark, const Words& source, const Words& target) const;
  Words best_range(const Words& wanted, const Words& target) const;
  int64_t point_of(int64_t word, const Words& source, const Words& target) const;
  void place(std::vector<size_t>& siblings, const Words& source, const Words& target);

  std::vector<std::vector<int64_t>> sources_;  // of each target word
  std::vector<PlacedMark> marks_;
  std::vector<size_t> roots_;
};

// The range with the most words that are linked into `wanted`, less the words that are linked elsewhere alone.
Words MarkPlaces::best_range(const Words& wanted, const Words& target) const {
  Words best = {-1, -1};
  int64_t best_sum = 0, sum = 0, begin = target.begin;
  for (int64_t t = target.begin; t < target.end; ++t) {
    const bool is_in = is_linked(t, wanted);
    if (sum <= 0) {
      sum = 0;
      begin = t;
    }
    sum += is_in ? 1 : sources_[static_cast<size_t>(t)].empty() ? 0 : -1;
    if (sum > best_sum) {
      best_sum = sum;
      best = {begin, t + 1};
    }
  }
  return best;
}

// The place in the translation for a mark before source word `word`.
int64_t MarkPlaces::point_of(int64_t word, const Words& source, const Words& target) const {
  if (word <= source.begin) return target.begin;
  if (word >= source.end) return target.end;
  for (int64_t t = target.begin; t < target.end; ++t)
    if (is_linked(t, {word, word + 1})) return t;
  for (int64_t t = target.end; t > target.begin; --t)
    if (is_linked(t - 1, {word - 1, word})) return t;
  return target.begin + (word - source.begin) * (target.end - target.begin) / (source.end - source.begin);
}

Words MarkPlaces::place_of(const InlineMark& mark, const Words& source, const Words& target) const {
  if (mark.begin < mark.end) {
    if (mark.begin <= source.begin && mark.end >= source.end) return target;
    if (const Words best = best_range({mark.begin, mark.end}, target); best.begin >= 0) return best;
  }
  const int64_t point = point_of(mark.begin, source, target);
  return {point, point};
}

void MarkPlaces::place(std::vector<size_t>& siblings, const Words& source, const Words& target) {
  std::map<std::pair<int64_t, int64_t>, Words> known;  // many elements may stand around the same words
  for (const size_t i : siblings) {
    const InlineMark& mark = *marks_[i].mark;
    const auto [found, is_new] = known.try_emplace({mark.begin, mark.end});
    if (is_new) found->second = place_of(mark, source, target);
    marks_[i].place = found->second;
  }
  std::ranges::stable_sort(siblings, {}, [&](size_t i) { return marks_[i].place.begin; });
  int64_t taken = target.begin;
  for (const size_t i : siblings) {
    Words& words = marks_[i].place;
    words.begin = std::max(words.begin, taken);
    words.end = std::max(words.begin, words.end);
    taken = words.end;
  }
}

class MarkWriter {
 public:
  MarkWriter(const MarkPlaces& places, std::vector<std::string> words) : places_(places), words_(std::move(words)) {}

  std::string text() {
    write({0, std::ssize(words_)}, places_.roots());
    return std::move(text_);
  }

 private:
  void write(const Words& range, const std::vector<size_t>& children) {
    int64_t at = range.begin;
    for (const size_t child : children) {
      const PlacedMark& placed = places_[child];
      write_words({at, placed.place.begin});
      write_mark(placed);
      at = placed.place.end;
    }
    write_words({at, range.end});
  }
  void write_words(const Words& range) {
    for (int64_t w = range.begin; w < range.end; ++w) {
      write_blank();
      text_ += escaped_markup(words_[static_cast<size_t>(w)]);
      is_blank_due_ = true;
    }
  }
  void write_mark(const PlacedMark& placed) {
    const InlineMark& mark = *placed.mark;
    const bool is_empty = placed.place.begin == placed.place.end;
    if (!is_empty || mark.blank_before) write_blank();
    if (!is_empty) take_head(placed);
    text_ += mark.opening;
    write(placed.place, placed.children);
    const std::string tail = is_empty ? std::string() : take_tail(placed);
    text_ += mark.closing + tail;
    // Text that is not translated is a word of its own, whatever punctuation followed it in the source.
    const bool keeps_text = is_empty && mark.opening.find("</", 1) != std::string::npos;
    if (is_empty && (mark.blank_after || keeps_text) && !text_.empty()) is_blank_due_ = true;
  }
  // Punctuation that stood before the element stays before it.
  void take_head(const PlacedMark& placed) {
    std::string& first = words_[static_cast<size_t>(placed.place.begin)];
    const std::string& head = placed.mark->head;
    if (head.empty() || !first.starts_with(head) || first.size() == head.size()) return;
    text_ += escaped_markup(head);
    first.erase(0, head.size());
  }
  // Punctuation that stood behind the element comes behind its closing tag, if no tag follows the last word.
  std::string take_tail(const PlacedMark& placed) {
    const std::string& raw = placed.mark->tail;
    const std::string& last = words_[static_cast<size_t>(placed.place.end - 1)];
    const std::string tail = escaped_markup(raw);
    if (raw.empty() || last.size() == raw.size() || !last.ends_with(raw) || !text_.ends_with(tail)) return {};
    text_.resize(text_.size() - tail.size());
    return tail;
  }
  void write_blank() {
    if (is_blank_due_) text_ += ' ';
    is_blank_due_ = false;
  }

  const MarkPlaces& places_;
  std::vector<std::string> words_;
  std::string text_;
  bool is_blank_due_ = false;
};

}  // namespace

std::string escaped_markup(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string translated_markup(const MarkupPart& part, std::string_view translation, const analysis::Links& links) {
  if (part.marks.empty()) return part.bytes + escaped_markup(translation);
  std::vector<std::string> words = split_words(translation);
  const MarkPlaces places(part, std::ssize(split_words(part.text)), std::ssize(words), links);
  return part.bytes + MarkWriter(places, std::move(words)).text();
}

}  // namespace fovea::serve
