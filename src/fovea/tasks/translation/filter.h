#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/spec/score_config.h"
#include "fovea/tasks/translation/pair_score.h"

namespace fovea::translation {

// `fovea filter` for translation models.
struct FilterOptions : ModelOptions, LogOptions {
  std::vector<std::string> train_sets, outputs;
  std::vector<double> threshold;  // one, or none
  std::string score = "log-probability", test = "none";
  double keep = 0;
  int64_t show = 0, seed = 1, test_pairs = 5000;
  bool json = false;
  int64_t mini_batch_words = 4096, mini_batch = 256, maxi_batch = 20, max_length = 1000;

  static constexpr auto fields() {
    using C = FilterOptions;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets, "source and target text to score, one sentence per line, may be compressed",
              "t"),
        choice("score", &C::score,
               "the score, higher is better. log-probability: per target token; null-rate: minus the share of "
               "cross-attention rows that are all zero (ReLA)",
               kPairScores),
        number("keep", &C::keep, "write this share of the pairs, those with the highest scores, to --output (0: none)",
               0, 1),
        at_most(1, field("threshold", &C::threshold, "write the pairs with at least this score to --output")),
        at_most(2, named("output", &C::outputs, "files for both sides of the kept pairs, in their order", "o")),
        choice(
            "test", &C::test,
            "measure how well the score tells the pairs from wrong ones: with another pair's target, that of the "
            "pair nearest in length, half of the target, a word of another target, a clause of another target added, "
            "or the source as target",
            "none|shuffled|neighbour|halved|swapped|inserted|untranslated"),
        number("test-pairs", &C::test_pairs, "pairs drawn from the text for --test, at most", 2, 1e8),
        number("show", &C::show,
               "print N pairs of the tenth with the best scores, or the N best ones, and N of the worst", 0, 1e6),
        number("seed", &C::seed, "random seed of --show and --test", 0, 9e15),
        field("json", &C::json, "print one JSON object instead of text"));
    return std::tuple_cat(ModelOptions::fields(), own, pair_batch_fields<C>(), LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, vocabs}; }
  bool keeps() const { return keep > 0 || !threshold.empty(); }
};
void validate(const FilterOptions& options);
// Throws an Error unless the files of --output can be written and are none that the command reads or writes otherwise.
void check_outputs(const FilterOptions& options);

// Writes a score per pair to standard output. Returns the number of pairs.
int64_t run_filter(const FilterOptions& options);

}  // namespace fovea::translation
