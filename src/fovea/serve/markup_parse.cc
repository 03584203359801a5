#include <algorithm>
#include <cctype>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/strings.h"
#include "fovea/serve/markup.h"
#include "fovea/serve/markup_tokens.h"
#include "fovea/text/entities.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8.h"

namespace fovea::serve {
namespace {

using Kind = MarkupToken::Kind;

constexpr int64_t kDeepest = 100;        // elements within one another; deeper tags count as marks without words
constexpr size_t kMostPunctuation = 15;  // bytes that may stand between an element and the blank beside it

bool is_punctuation(char c) { return c > ' ' && c < 127 && std::isalnum(static_cast<unsigned char>(c)) == 0; }

// The punctuation up to the next blank; empty if something else is there. A word may have many elements, so that only
// its first bytes are looked at.
std::string_view leading_punctuation(std::string_view text) {
  const std::string_view near = text.substr(0, kMostPunctuation + 1);
  const auto end = std::ranges::find_if_not(near, is_punctuation);
  const auto size = static_cast<size_t>(end - near.begin());
  return size <= kMostPunctuation && (size == text.size() || text[size] == ' ') ? text.substr(0, size)
                                                                                : std::string_view();
}

// Likewise the punctuation behind the last blank.
std::string_view trailing_punctuation(std::string_view text) {
  const std::string_view near = text.substr(text.size() - std::min(text.size(), kMostPunctuation + 1));
  const auto behind = std::find_if_not(near.rbegin(), near.rend(), is_punctuation);
  const auto size = static_cast<size_t>(behind - near.rbegin());
  return size <= kMostPunctuation && (size == text.size() || text[text.size() - size - 1] == ' ')
             ? text.substr(text.size() - size)
             : std::string_view();
}

// The text between two block elements: its words, and the marks between them.
class Block {
 public:
  // References to entities that are not known are marks without words.
  void add_text(std::string_view bytes) {
    while (!bytes.empty()) {
      const text::Reference reference = text::leading_reference(bytes);
      if (reference.size > 0 && reference.character.empty()) {
        add_mark(bytes.substr(0, reference.size));
      } else if (reference.size > 0) {
        for (const char c : reference.character) add_byte(c);
      } else {
        add_byte(bytes[0]);
      }
      bytes.remove_prefix(std::max<size_t>(reference.size, 1));
    }
  }
  void add_opening(const MarkupToken& token) {
    const bool is_too_deep = std::ssize(open_) >= kDeepest;
    add_mark(token.bytes);
    if (!is_too_deep) open_.push_back({token.name, marks_.size() - 1});
  }
  void add_closing(const MarkupToken& token) {
    const auto found = std::find_if(open_.rbegin(), open_.rend(), [&](const Open& o) { return o.name == token.name; });
    if (found == open_.rend()) return add_mark(token.bytes);
    InlineMark& closed = marks_[found->mark];
    open_.erase(std::prev(found.base()), open_.end());  // inner elements without a closing tag are marks without words
    closed.closing = token.bytes;
    closed.end = -1;  // an element without words, until it proves to have some
    if (is_resolved(closed)) closed.end = word_ + 1;
    closings_.push_back({static_cast<size_t>(&closed - marks_.data()), text_.size()});
  }
  void add_mark(std::string_view bytes) {
    InlineMark mark;
    mark.opening = bytes;
    mark.begin = kUnknown;
    mark.end = kUnknown;
    mark.blank_before = has_blank_;
    if (!open_.empty()) mark.parent = static_cast<int64_t>(open_.back().mark);
    openings_.push_back(text_.size());
    marks_.push_back(std::move(mark));
  }
  bool has_words() const { return !is_empty_line(text_); }

  // The sentences of the block, whose words the splitter may divide.
  std::vector<MarkupPart> take(text::SentenceSplitter* splitter);

 private:
  static constexpr int64_t kUnknown = -2;
  struct Open {
    std::string name;
    size_t mark;
  };
  struct Closing {
    size_t mark, at;  // `at`: the bytes of the text before it
  };

  void add_byte(char c) {
    if (!is_space(c)) return add(c);
    has_blank_ = true;
    marks_before_blank_ = marks_.size();
  }
  static bool is_resolved(const InlineMark& mark) { return mark.begin != kUnknown; }
  void add(char c) {
    if (has_blank_ && !text_.empty()) {
      text_ += ' ';
      ++word_;
    }
    for (; resolved_ < marks_.size(); ++resolved_) {
      marks_[resolved_].begin = word_;
      marks_[resolved_].blank_after = resolved_ < marks_before_blank_;
    }
    has_blank_ = false;
    text_ += c;
  }
  std::vector<size_t> sentence_begins(text::SentenceSplitter& splitter) const;
  void divide_words(std::vector<size_t>& begins);
  void finish_marks();
  std::vector<int64_t> sentence_ends(const std::vector<size_t>& begins) const;

  std::string text_;
  int64_t word_ = 0;
  bool has_blank_ = false;
  std::vector<InlineMark> marks_;
  std::vector<size_t> openings_;  // the bytes of the text before each mark
  std::vector<Closing> closings_;
  std::vector<Open> open_;
  size_t resolved_ = 0, marks_before_blank_ = 0;
  std::vector<int64_t> glued_;  // words that begin a sentence without a blank before them
};

// The bytes of the text at which its sentences begin, except the first.
std::vector<size_t> Block::sentence_begins(text::SentenceSplitter& splitter) const {
  std::vector<size_t> begins;
  for (const text::SentencePlace& place : splitter.places(text_))
    if (place.begin > 0) begins.push_back(place.begin);
  return begins;
}

// Makes words of their own of sentences that begin inside a word, as in Chinese, unless an element joins them to the
// sentence before. Keeps `begins` at the same sentences.
void Block::divide_words(std::vector<size_t>& begins) {
  std::vector<size_t> opened, closed;
  for (const Closing& closing : closings_) {
    if (openings_[closing.mark] == closing.at) continue;  // an element without text joins nothing
    opened.push_back(openings_[closing.mark]);
    closed.push_back(closing.at);
  }
  std::ranges::sort(opened);
  std::ranges::sort(closed);
  const auto below = [](const std::vector<size_t>& sorted, size_t place) {
    return std::ranges::lower_bound(sorted, place) - sorted.begin();
  };
  std::vector<size_t> divided;
  std::erase_if(begins, [&](size_t place) {
    if (text_[place - 1] == ' ') return false;
    if (below(opened, place) > below(closed, place + 1)) return true;
    divided.push_back(place);
    return false;
  });
  for (size_t i = 0; i < marks_.size(); ++i)
    if (is_resolved(marks_[i])) marks_[i].begin += below(divided, openings_[i] + 1);
  for (const Closing& closing : closings_)
    if (InlineMark& mark = marks_[closing.mark]; mark.end > 0) mark.end += below(divided, closing.at);
  for (size_t& place : openings_) place += static_cast<size_t>(below(divided, place + 1));
  for (Closing& closing : closings_) closing.at += static_cast<size_t>(below(divided, closing.at));
  for (size_t& place : begins) place += static_cast<size_t>(below(divided, place + 1));
  std::string text;
  size_t at = 0;
  for (const size_t place : divided) {
    text += text_.substr(at, place - at) + ' ';
    at = place;
  }
  text_ = text + text_.substr(at);
  word_ += std::ssize(divided);
  int64_t word = 0;
  at = 0;
  for (size_t i = 0; i < divided.size(); ++i) {
    const size_t place = divided[i] + i;  // of the blank
    word += std::count(text_.begin() + static_cast<std::ptrdiff_t>(at),
                       text_.begin() + static_cast<std::ptrdiff_t>(place) + 1, ' ');
    glued_.push_back(word);
    at = place + 1;
  }
}

// Marks behind the last word stand there; an element is empty unless a word began within it.
void Block::finish_marks() {
  const int64_t words = word_ + 1;
  for (size_t i = 0; i < marks_.size(); ++i) {
    InlineMark& mark = marks_[i];
    if (i >= resolved_) {
      mark.begin = words;
      mark.blank_after = i < marks_before_blank_;
    }
    if (mark.closing.empty() || mark.end < mark.begin) mark.end = mark.begin;
    // An element without a closing tag holds nothing; parents come before their children.
    if (mark.parent >= 0 && marks_[static_cast<size_t>(mark.parent)].closing.empty())
      mark.parent = marks_[static_cast<size_t>(mark.parent)].parent;
    if (mark.parent < 0) continue;
    const int64_t last = marks_[static_cast<size_t>(mark.parent)].end;
    mark.begin = std::min(mark.begin, last);
    mark.end = std::min(mark.end, last);
  }
  for (const Closing& closing : closings_) {
    InlineMark& mark = marks_[closing.mark];
    if (mark.end == mark.begin) continue;
    mark.tail = leading_punctuation(std::string_view(text_).substr(closing.at));
    mark.head = trailing_punctuation(std::string_view(text_).substr(0, openings_[closing.mark]));
  }
}

// The numbers of the words at which sentences end. An element that several sentences share joins them.
std::vector<int64_t> Block::sentence_ends(const std::vector<size_t>& begins) const {
  const int64_t words = word_ + 1;
  std::vector<int64_t> ends;
  int64_t word = 0;
  size_t at = 0;
  for (const size_t begin : begins) {
    word += std::count(text_.begin() + static_cast<std::ptrdiff_t>(at),
                       text_.begin() + static_cast<std::ptrdiff_t>(begin), ' ');
    at = begin;
    ends.push_back(word);
  }
  std::vector<bool> is_within(static_cast<size_t>(words) + 1, false);
  int64_t reached = 0;
  for (const InlineMark& mark : marks_) {  // sorted by their beginnings
    for (int64_t w = std::max(reached, mark.begin + 1); w < mark.end; ++w) is_within[static_cast<size_t>(w)] = true;
    reached = std::max(reached, mark.end);
  }
  std::erase_if(ends, [&](int64_t end) { return is_within[static_cast<size_t>(end)]; });
  ends.push_back(words);
  return ends;
}

std::vector<MarkupPart> Block::take(text::SentenceSplitter* splitter) {
  std::vector<size_t> begins;
  if (splitter != nullptr) begins = sentence_begins(*splitter);
  divide_words(begins);
  finish_marks();
  std::vector<std::string> words = split_words(text_);
  std::vector<MarkupPart> parts;
  int64_t first_word = 0;
  size_t first_mark = 0;
  std::string gap;  // white space between sentences other than blanks, such as U+00A0
  const std::vector<int64_t> ends = sentence_ends(begins);
  for (const int64_t end : ends) {
    MarkupPart part;
    part.bytes = std::exchange(gap, {});
    if (!parts.empty() && !std::ranges::binary_search(glued_, first_word)) part.bytes += ' ';
    part.text =
        join(std::span(words).subspan(static_cast<size_t>(first_word), static_cast<size_t>(end - first_word)), " ");
    if (end != ends.back()) {
      gap = part.text.substr(part.text.size() - text::trailing_blanks_size(part.text));
      part.text.resize(part.text.size() - gap.size());
    }
    size_t mark = first_mark;
    for (; mark < marks_.size(); ++mark) {
      // A mark between two sentences belongs to the second one, unless the first one has an element around it.
      if (marks_[mark].parent < 0 && marks_[mark].begin >= end && end != ends.back()) break;
      InlineMark moved = std::move(marks_[mark]);
      moved.begin -= first_word;
      moved.end -= first_word;
      if (moved.parent >= 0) moved.parent -= static_cast<int64_t>(first_mark);
      part.marks.push_back(std::move(moved));
    }
    first_mark = mark;
    first_word = end;
    parts.push_back(std::move(part));
  }
  return parts;
}

// Gathers the tokens between block elements and turns them into parts.
class MarkupParser {
 public:
  explicit MarkupParser(text::SentenceSplitter* splitter) : splitter_(splitter) {}

  void add(MarkupToken token) { tokens_.push_back(std::move(token)); }
  // Text whose line ends are seen, as in <pre>: each line stands alone.
  void add_lines(std::string_view text) {
    while (!text.empty()) {
      const size_t line = std::min(text.find('\n'), text.size());
      if (line > 0) add({Kind::kText, text.substr(0, line), {}});
      if (line < text.size()) add_block_tag(text.substr(line, 1));
      text.remove_prefix(std::min(line + 1, text.size()));
    }
  }
  void add_block_tag(std::string_view bytes) {
    end_block();
    bytes_ += bytes;
  }
  std::vector<MarkupPart> finish() {
    end_block();
    if (!bytes_.empty()) parts_.push_back({std::move(bytes_), {}, {}});
    return std::move(parts_);
  }

 private:
  void end_block();
  MarkupPart& add_part(MarkupPart part) {
    part.bytes = std::exchange(bytes_, {}) + part.bytes;
    return parts_.emplace_back(std::move(part));
  }

  text::SentenceSplitter* splitter_;
  std::vector<MarkupToken> tokens_;
  std::string bytes_;  // what stays before the next sentence
  std::vector<MarkupPart> parts_;
};

// The bytes at the beginning of text in markup that are white space, or references to it.
size_t leading_markup_blanks(std::string_view bytes) {
  size_t size = 0;
  for (;;) {
    const std::string_view rest = bytes.substr(size);
    const text::Reference reference = text::leading_reference(rest);
    const bool is_blank = text::white_space_size(reference.character) > 0;
    const size_t next = is_blank ? reference.size : text::white_space_size(rest);
    if (next == 0) return size;
    size += next;
  }
}

size_t trailing_markup_blanks(std::string_view bytes) {
  size_t ink_end = 0;
  for (size_t at = leading_markup_blanks(bytes); at < bytes.size(); at += leading_markup_blanks(bytes.substr(at))) {
    at += std::max<size_t>(text::leading_reference(bytes.substr(at)).size, 1);
    ink_end = at;
  }
  return bytes.size() - ink_end;
}

void MarkupParser::end_block() {
  std::vector<MarkupToken> tokens = std::exchange(tokens_, {});
  if (tokens.empty()) return;
  std::string_view before, behind;
  if (MarkupToken& first = tokens.front(); first.kind == Kind::kText) {
    before = first.bytes.substr(0, leading_markup_blanks(first.bytes));
    first.bytes.remove_prefix(before.size());
  }
  if (MarkupToken& last = tokens.back(); last.kind == Kind::kText) {
    behind = last.bytes.substr(last.bytes.size() - trailing_markup_blanks(last.bytes));
    last.bytes.remove_suffix(behind.size());
  }
  Block block;
  for (const MarkupToken& token : tokens) {
    if (token.kind == Kind::kText) block.add_text(token.bytes);
    if (token.kind == Kind::kOpening) block.add_opening(token);
    if (token.kind == Kind::kClosing) block.add_closing(token);
    if (token.kind == Kind::kAlone) block.add_mark(token.bytes);
  }
  bytes_ += before;
  if (block.has_words()) {
    for (MarkupPart& part : block.take(splitter_)) add_part(std::move(part));
  } else {
    for (const MarkupToken& token : tokens) bytes_ += token.bytes;
  }
  bytes_ += behind;
}

}  // namespace

std::vector<MarkupPart> parse_markup(std::string_view markup, MarkupKind kind, text::SentenceSplitter* splitter) {
  const bool is_html = kind == MarkupKind::kHtml;
  MarkupTokens reader(markup, kind);
  std::vector<MarkupToken> tokens;
  while (auto token = reader.next()) tokens.push_back(std::move(*token));
  const std::vector<bool> outline = is_html ? std::vector<bool>() : outline_of(tokens);
  MarkupParser parser(splitter);
  bool is_preformatted = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    MarkupToken& token = tokens[i];
    if (is_html && token.name == "pre") is_preformatted = token.kind == Kind::kOpening;
    if (is_html ? text::is_block_element(token.name) : outline[i]) {
      parser.add_block_tag(token.bytes);
    } else if (is_preformatted && token.kind == Kind::kText) {
      parser.add_lines(token.bytes);
    } else {
      parser.add(std::move(token));
    }
  }
  return parser.finish();
}

}  // namespace fovea::serve
