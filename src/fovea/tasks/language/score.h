#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tasks/language/model_options.h"

namespace fovea::language {

// `fovea score` for language models.
struct ScoreOptions : LanguageModelOptions, LogOptions {
  std::vector<std::string> train_sets;
  std::string output = "-", level = "text";
  int64_t context = -1, stride = 0, words = 0, mini_batch = 16;

  static constexpr auto fields() {
    using C = ScoreOptions;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets, "text to score, may be compressed; - is standard input", "t"),
        named("output", &C::output, "where the results go; - is standard output", "o"),
        choice("level", &C::level,
               "measures of the whole text, or the log-probability (natural logarithm) of each line or unit",
               "text|line|unit"),
        number("context", &C::context,
               "units before each unit that the model sees, at least, where the text has them (-1: half of the trained "
               "segment)",
               -1, 1 << 24),
        number("stride", &C::stride, "units scored in one pass (0: the trained segment without --context)", 0, 1 << 24),
        number("words", &C::words, "count of words for perplexity-per-word (0: those of the text)", 0, 1e15),
        number("mini-batch", &C::mini_batch, "passes computed together; results do not depend on it", 1, 1e6));
    return std::tuple_cat(model_fields<C>("float32|bfloat16"), own, LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets}; }
};
void validate(const ScoreOptions& options);

// Returns the number of units scored.
int64_t run_score(const ScoreOptions& options);

}  // namespace fovea::language
