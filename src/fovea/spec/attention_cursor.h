#pragma once
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/transforms.h"

// Reads the words and numbers of an attention spec, which attention_parse.cc puts together.
namespace fovea {

class SpecCursor {
 protected:
  explicit SpecCursor(std::string_view text) : text_(text) {}

  // Throws a SpecError that points at character `at`.
  [[noreturn]] void fail(size_t at, const std::string& why) const;

  bool done() const { return at_ >= text_.size(); }
  char peek() const { return text_[at_]; }
  void skip_spaces();
  bool take(char c);        // whether `c` comes next, after spaces; passes it
  std::string got() const;  // the next character in quotes, or "the end"
  // Passes `c`, or throws "expected 'c' WHERE".
  void need(char c, std::string_view where);
  // A letter, and letters, digits, - and _.
  std::string_view word(std::string_view expected);
  // The word that comes next, or nothing; does not pass it.
  std::string_view next_word();
  // clause(level) or mix(full,clause(1),...[,constant(P)|token])
  ClauseAttention clauses();
  // Reads a whole number from `min` to kMaxArgument.
  int64_t whole_number(std::string_view what, int64_t min);
  // A number in the field's range, or its keyword.
  template <class S>
  void real_number(S& out, const RealField<S>& field) {
    skip_spaces();
    const size_t begin = at_;
    if (!field.keyword.empty() && !done() && is_letter(peek())) {
      if (word("a number") != field.keyword)
        fail(begin, cat("expected a number or '", field.keyword, "' for ", field.name));
      out.*field.chosen = true;
      return;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) fail(begin, cat("expected a number for ", field.name, ", got ", got()));
    if (error != std::errc() || !(value >= field.min && value <= field.max))
      fail(begin, cat(field.name, " must be between ", shortest(field.min), " and ", shortest(field.max)));
    at_ = static_cast<size_t>(end - text_.data());
    out.*field.member = value;
    if (field.chosen) out.*field.chosen = false;
  }

  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  std::string_view text_;
  size_t at_ = 0;

 private:
  int64_t clause_level();
  void mixture(ClauseAttention& out);
  void mixture_weights(ClauseAttention& out);
};

}  // namespace fovea
