#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/config_problems.h"

namespace fovea::tagging {

// The options that training takes for this task alone.
struct Options {
  std::vector<std::string> train_sets, valid_sets;
  std::string vocabs, clause_dictionary;
  std::vector<int64_t> label_column;
  int64_t mini_batch = 32, mini_batch_words = 4096, maxi_batch = 100;
  double label_smoothing = 0;

  static auto fields() {
    using C = Options;
    return std::tuple(
        named("train-sets", &C::train_sets, "files of columns to learn from, may be compressed", "t"),
        field("valid-sets", &C::valid_sets, "files of columns for validation"),
        named("vocabs", &C::vocabs,
              "a SentencePiece model (fovea vocab) or BERT's vocab.txt (default: that of --pretrained-model)", "v"),
        at_most(2, field("label-column", &C::label_column,
                         "column of the labels, from 1; of two columns, a word has the second one's label if the first "
                         "one's is O (default: the last column)")),
        field("clause-dictionary", &C::clause_dictionary,
              "signal words that split sentences into clauses, for mechanisms with clauses (default: that of "
              "--pretrained-model, else English)"),
        number("mini-batch", &C::mini_batch, "sentences in a batch", 1, 1e9),
        number("mini-batch-words", &C::mini_batch_words, "pieces in a batch, at most", 1, 1e9),
        number("maxi-batch", &C::maxi_batch, "batches' worth of sentences that are sorted by length together", 1, 1e6),
        number("label-smoothing", &C::label_smoothing, "share of the target's mass spread over all labels", 0, 0.99));
  }

  // The files that training reads.
  std::vector<std::vector<std::string>> inputs() const {
    std::vector<std::vector<std::string>> files = {train_sets, valid_sets};
    if (!vocabs.empty()) files.push_back({vocabs});
    if (!clause_dictionary.empty()) files.push_back({clause_dictionary});
    return files;
  }
};

// Adds what is wrong with --label-column.
inline void add_column_problems(const std::vector<int64_t>& columns, Problems& problems) {
  const bool is_word = std::ranges::any_of(columns, [](int64_t column) { return column < 2; });
  problems.add_if(is_word, "--label-column: expected numbers from 2; the first column is the word");
}

inline void add_problems(const Options& options, Problems& problems) {
  problems.add_ranges(options);
  problems.add_if(options.train_sets.empty(), "--train-sets is missing; expected one or more files of columns");
  add_column_problems(options.label_column, problems);
}

}  // namespace fovea::tagging
