#include <charconv>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_cursor.h"

// Reads clause attention, whose arguments are not a list of numbers.
namespace fovea {

int64_t SpecCursor::clause_level() {
  skip_spaces();
  const size_t begin = at_;
  if (word("clause(level)") != ClauseAttention::kClause) fail(begin, "expected clause(level)");
  need('(', "after clause");
  skip_spaces();
  const size_t number = at_;
  const int64_t level = whole_number("level of clause", 1);
  if (level > ClauseAttention::kMaxLevel)
    fail(number, cat("level of clause is ", level, "; it must be at most ", ClauseAttention::kMaxLevel));
  need(')', "after the level of clause");
  return level;
}

void SpecCursor::mixture_weights(ClauseAttention& out) {
  skip_spaces();
  const size_t begin = at_;
  const std::string_view name = word("clause(level), constant(P) or token");
  if (name == "token") {
    out.weights = ClauseAttention::Weights::kByToken;
    return;
  }
  if (name != "constant") fail(begin, cat("expected clause(level), constant(P) or token in mix, got '", name, "'"));
  out.weights = ClauseAttention::Weights::kConstant;
  need('(', "after constant");
  skip_spaces();
  const size_t number = at_;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out.constant);
  if (error != std::errc() || !(out.constant >= 0 && out.constant <= 1))
    fail(number, "expected a number from 0 to 1 for P of constant");
  at_ = static_cast<size_t>(end - text_.data());
  need(')', "after P of constant");
}

void SpecCursor::mixture(ClauseAttention& out) {
  out.weights = ClauseAttention::Weights::kLearned;
  word("mix");
  need('(', "after mix");
  skip_spaces();
  const size_t begin = at_;
  if (word("full") != Full::kName) fail(begin, "mix begins with full, as in mix(full,clause(1),clause(2))");
  need(',', "before clause(level) of mix");
  do {
    skip_spaces();
    const size_t part = at_;
    if (!out.levels.empty() && next_word() != ClauseAttention::kClause) {
      mixture_weights(out);
      break;
    }
    const int64_t level = clause_level();
    if (!out.levels.empty() && level <= out.levels.back())
      fail(part, cat("the levels of mix rise; got ", level, " after ", out.levels.back()));
    out.levels.push_back(level);
  } while (take(','));
  need(')', "after the arguments of mix");
}

ClauseAttention SpecCursor::clauses() {
  ClauseAttention out;
  if (next_word() == ClauseAttention::kMix) {
    mixture(out);
  } else {
    out.levels = {clause_level()};
  }
  return out;
}

}  // namespace fovea
