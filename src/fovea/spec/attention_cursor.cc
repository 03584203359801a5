#include "fovea/spec/attention_cursor.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/spec/attention_names.h"

namespace fovea {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }  // of UTF-8

// The sentence, the text (blanks for control characters, far ends cut) and a caret under the column.
std::string picture(const std::string& why, std::string_view text, size_t at) {
  constexpr size_t kAround = 100;
  const auto whole = [&](size_t cut) {  // not within a character
    while (cut < text.size() && continues_character(text[cut])) ++cut;
    return cut;
  };
  const size_t begin = whole(at > kAround ? at - kAround : 0), end = whole(begin + 2 * kAround);
  const size_t column = std::min(at, end);
  const std::string before = one_line(std::string(text.substr(begin, column - begin))),
                    behind = one_line(std::string(text.substr(column, end - column)));
  const auto characters = std::ranges::count_if(before, [](char c) { return !continues_character(c); });
  const std::string caret(static_cast<size_t>(characters), ' ');
  return cat("attention spec, column ", at + 1, ": ", one_line(why), "\n  ", before, behind, "\n  ", caret, "^");
}

}  // namespace

void SpecCursor::fail(size_t at, const std::string& why) const { throw SpecError(picture(why, text_, at), at + 1); }

void SpecCursor::skip_spaces() {
  while (!done() && is_space(peek())) ++at_;
}

bool SpecCursor::take(char c) {
  skip_spaces();
  if (done() || peek() != c) return false;
  ++at_;
  return true;
}

std::string SpecCursor::got() const {
  if (done()) return "the end";
  size_t end = at_ + 1;
  while (end < text_.size() && continues_character(text_[end])) ++end;
  return cat("'", text_.substr(at_, end - at_), "'");
}

void SpecCursor::need(char c, std::string_view where) {
  if (!take(c)) fail(at_, cat("expected '", std::string(1, c), "' ", where, ", got ", got()));
}

std::string_view SpecCursor::word(std::string_view expected) {
  skip_spaces();
  const size_t begin = at_;
  while (!done() && (is_letter(peek()) || (at_ > begin && (peek() == '-' || peek() == '_' || is_digit(peek()))))) ++at_;
  if (at_ == begin) fail(begin, cat("expected ", expected, ", got ", got()));
  return text_.substr(begin, at_ - begin);
}

int64_t SpecCursor::whole_number(std::string_view what, int64_t min) {
  skip_spaces();
  const size_t begin = at_;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::invalid_argument) fail(begin, cat("expected a whole number for ", what, ", got ", got()));
  if (error == std::errc() && value < min) fail(begin, cat(what, " is ", value, "; it must be at least ", min));
  if (error != std::errc() || value > kMaxArgument)
    fail(begin, cat(what, " is too large; it must be at most ", kMaxArgument));
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

std::string_view SpecCursor::next_word() {
  skip_spaces();
  const size_t begin = at_;
  if (done() || !is_letter(peek())) return {};
  const std::string_view name = word("a name");
  at_ = begin;
  return name;
}

}  // namespace fovea
