#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/spec/run_options.h"

namespace fovea::language {

// What the commands on a language model share.
struct LanguageModelOptions : TrainedModelOptions {
  int64_t memory_length = -1;
  bool same_length = false;
};

// Its fields. --precision is of matrix products and activations.
template <class C>
constexpr auto model_fields(std::string_view precisions) {
  const auto overrides = std::tuple(
      field("attention", &C::attention, "use this mechanism instead of the trained one, in every layer"),
      field("attention-decoder", &C::attention_decoder, "use this mechanism in the decoder's self-attention"));
  return std::tuple_cat(
      TrainedModelOptions::fields(overrides, precisions, "type of matrix products and activations"),
      std::tuple(
          number("memory-length", &C::memory_length,
                 "units before each segment that the model sees too (-1: as it was trained)", -1, 1 << 24),
          field("same-length", &C::same_length,
                "every unit sees itself and --memory-length units before it, not those of its segment as well")));
}

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
