#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tasks/tagging/model_options.h"

namespace fovea::tagging {

// `fovea score` for taggers.
struct ScoreOptions : TrainedModelOptions, LogOptions {
  std::vector<std::string> train_sets;
  std::vector<int64_t> label_column;
  std::string output = "-";
  int64_t mini_batch_words = 4096, clause_tag_column = -1;

  static constexpr auto fields() {
    using C = ScoreOptions;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets,
              "files of columns with the right labels, may be compressed; - is standard input", "t"),
        at_most(2, field("label-column", &C::label_column,
                         "column of the labels, from 1; of two columns, a word has the second one's label if the first "
                         "one's is O (default: the last column)")),
        clause_tag_column_field<C>(), named("output", &C::output, "where the results go; - is standard output", "o"),
        number("mini-batch-words", &C::mini_batch_words, "pieces computed together; results do not depend on it", 1,
               1e9));
    return std::tuple_cat(model_fields<C>(), own, LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets}; }
};
void validate(const ScoreOptions& options);

// Writes the report of conlleval, a line "F1 91.03" in percent and, if the labels are names and others, a line for each
// kind. Returns the number of words scored.
int64_t run_score(const ScoreOptions& options);

}  // namespace fovea::tagging
