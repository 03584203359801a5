#pragma once
#include <string>
#include <vector>

#include "fovea/spec/run_options.h"

namespace fovea {

// The fields of commands that read parallel text with a model: how its pairs are batched and cut.
template <class C>
constexpr auto pair_batch_fields() {
  return std::tuple(named(number("mini-batch-words", &C::mini_batch_words,
                                 "target tokens in a batch, at most; of the source, four times as many", 1, 1e9),
                          "max-tokens"),
                    number("mini-batch", &C::mini_batch, "sentences in a batch, at most", 1, 1e9),
                    number("maxi-batch", &C::maxi_batch, "batches' worth of lines sorted by length together", 1, 1e6),
                    number("max-length", &C::max_length, "longer lines, in tokens, are cut, with a warning", 1, 1e6));
}

// Log-probabilities of given translations under a trained model.
struct ScoreConfig : ModelOptions, LogOptions {
  std::string output = "-", source_lang, target_lang;
  std::vector<std::string> train_sets;
  bool summary = false;
  int64_t mini_batch_words = 4096, mini_batch = 256, maxi_batch = 100, max_length = 1000;

  static constexpr auto fields() {
    using C = ScoreConfig;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets, "source and target text to score, one sentence per line, may be compressed",
              "t"),
        named("output", &C::output, "where the log-probabilities go; - is standard output", "o"),
        field("source-lang", &C::source_lang,
              "language of the source, whose mark stands before each line: the code in a mark of the model"),
        field("target-lang", &C::target_lang, "language of the target, by the code in a mark of the model"),
        field("summary", &C::summary, "sums over the whole text and a signature instead of one line per sentence"));
    const auto model = ModelOptions::fields(
        "float32|bfloat16|int8", "type of matrix products and activations; int8: of the layers' products only");
    return std::tuple_cat(model, own, pair_batch_fields<C>(), LogOptions::fields());
  }

  // The files that the command reads.
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, vocabs}; }
};

void validate(const ScoreConfig& config);

class Problems;
// Adds what is wrong with two files of --train-sets, of which one may be '-', standard input.
void add_parallel_text_problems(const std::vector<std::string>& files, Problems& problems);

}  // namespace fovea
