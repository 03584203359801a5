#include "fovea/text/column_lines.h"

#include <algorithm>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

using LineKind = ColumnLine::Kind;

bool may_be_comment(const ColumnLine& line) { return line.kind == LineKind::kWord && line.text.starts_with('#'); }

// The first line that cannot be a comment.
template <class Lines>
auto first_certain_word(Lines& lines) {
  return std::ranges::find_if_not(lines, may_be_comment);
}

// In files that number words, tabs stand between columns, and a word may have blanks.
std::vector<std::string> numbered_columns(const ColumnLine& line) {
  return line.text.find('\t') == std::string::npos ? line.columns : split(line.text, '\t');
}

std::vector<std::vector<std::string>> columns_of_words(const std::vector<ColumnLine>& sentence) {
  std::vector<std::vector<std::string>> lines;
  for (const ColumnLine& line : sentence)
    if (line.kind == LineKind::kWord) lines.push_back(numbered_columns(line));
  return lines;
}

}  // namespace

void ColumnLines::add(std::string line) {
  ++number_;
  while (!line.empty() && is_space(line.back())) line.pop_back();
  ColumnLine next = {.text = std::move(line), .number = number_};
  next.columns = split_words(next.text);
  if (is_empty_line(next.text)) next.kind = LineKind::kEmpty;
  if (next.kind == LineKind::kWord && next.columns.front() == kDocumentMark) next.kind = LineKind::kDocument;
  if (next.kind == LineKind::kWord) {
    open_.push_back(std::move(next));
    return;
  }
  end_sentence();
  if (held_.empty()) {
    ready_.push_back(std::move(next));
  } else {
    held_.push_back({std::move(next)});
  }
}

void ColumnLines::end() {
  end_sentence();
  settle(true);
}

void ColumnLines::end_sentence() {
  if (open_.empty()) return;
  held_.push_back(std::exchange(open_, {}));
  settle(false);
}

// Releases the held sentences once it is known how the file is made.
void ColumnLines::settle(bool is_end) {
  if (held_.empty() || !find_shape(is_end)) return;
  for (; marked_ < held_.size(); ++marked_) mark_comments(held_[marked_]);
  find_numbers(is_end);
  if (numbers_ == Numbers::kUnknown) return;
  for (Sentence& sentence : held_) release(sentence);
  held_.clear();
  marked_ = shapeless_ = unnumbered_ = 0;
}

bool ColumnLines::find_shape(bool is_end) {
  if (is_end) shapeless_ = 0;  // comments may be words then
  for (; shapeless_ < held_.size() && !shape_; ++shapeless_) {
    const size_t i = shapeless_;
    const auto word = first_certain_word(held_[i]);
    const bool has_word = word != held_[i].end() && word->kind == LineKind::kWord;
    if (!has_word && !is_end) continue;
    const auto certain = has_word ? word : held_[i].end() - 1;
    if (certain->kind != LineKind::kWord) continue;
    shape_.emplace();
    for (auto line = certain; line != held_[i].end(); ++line) shape_->add(line->text, line->columns);
  }
  return shape_.has_value();
}

void ColumnLines::mark_comments(Sentence& sentence) {
  const auto word = first_certain_word(sentence);
  if (word != sentence.end() && word->kind == LineKind::kWord) {
    shape_.emplace();
    for (auto line = word; line != sentence.end(); ++line) shape_->add(line->text, line->columns);
  }
  for (auto line = sentence.begin(); line != word; ++line) {
    const ColumnShape::Verdict verdict = shape_->verdict(line->text, line->columns);
    if (verdict == ColumnShape::Verdict::kWord) return;
    line->kind = LineKind::kComment;
    ++comments_;
    if (verdict == ColumnShape::Verdict::kByValue) warn_of_comment(*line, *shape_);
  }
}

void ColumnLines::warn_of_comment(const ColumnLine& line, const ColumnShape& shape) {
  if (std::exchange(has_warned_, true)) return;
  log::warn(cat(name_, ", line ", line.number, ": '", line.text, "' is read as a comment, because '",
                line.columns.back(), "' is unlike the last column of the words below, such as '",
                *shape.last_values().begin(), "'; further lines like it get no message"));
}

void ColumnLines::find_numbers(bool is_end) {
  for (; unnumbered_ < held_.size() && numbers_ == Numbers::kUnknown; ++unnumbered_) {
    const std::vector<std::vector<std::string>> words = columns_of_words(held_[unnumbered_]);
    if (words.empty()) continue;
    const Numbering numbering = numbering_of(words);
    if (numbering == Numbering::kSure) numbers_ = Numbers::kWords;
    if (numbering == Numbering::kNone) numbers_ = Numbers::kNone;
  }
  if (numbers_ == Numbers::kUnknown && is_end) numbers_ = Numbers::kNone;
}

void ColumnLines::mark_asides(Sentence& sentence) {
  int64_t expected = 1;
  for (ColumnLine& line : sentence) {
    if (line.kind != LineKind::kWord) continue;
    line.columns = numbered_columns(line);
    line.word_at = 1;
    const int64_t number = word_number(line.columns.front());
    const std::string place = cat(name_, ", line ", line.number, ": ");
    if (number != 0 && number != expected)
      throw Error(cat(place, "got '", line.columns.front(),
                      "' in the first column, which numbers the words (as in CoNLL-U); expected ", expected,
                      ", or an empty line before a new sentence"));
    if (line.columns.size() < 2 || trim(line.word()).empty())
      throw Error(cat(place, "got no word behind its number; expected one in the second column"));
    if (number > 0) ++expected;
    if (number > 0) continue;
    line.kind = LineKind::kAside;
    ++asides_;
  }
}

void ColumnLines::release(Sentence& sentence) {
  if (numbers_ == Numbers::kWords) mark_asides(sentence);
  ready_.insert(ready_.end(), std::make_move_iterator(sentence.begin()), std::make_move_iterator(sentence.end()));
}

}  // namespace fovea::text
