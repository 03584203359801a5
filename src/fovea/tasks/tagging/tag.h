#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tasks/tagging/model_options.h"

namespace fovea::tagging {

// `fovea tag`.
struct TagOptions : TrainedModelOptions, LogOptions {
  std::string input = "-", output = "-", input_format = "columns";
  int64_t mini_batch_words = 4096, window = 10000, clause_tag_column = -1;

  static constexpr auto fields() {
    using C = TagOptions;
    const auto own = std::tuple(
        named("input", &C::input, "what to tag, may be compressed; - is standard input", "i"),
        named("output", &C::output, "where the labels go; - is standard output", "o"),
        choice("input-format", &C::input_format,
               "columns with the word first, or text: one sentence per line, whose words stand between white space; "
               "punctuation around a word is split from it, and each Chinese character and kana is a word",
               "columns|text"),
        clause_tag_column_field<C>(),
        number("mini-batch-words", &C::mini_batch_words, "pieces computed together; results do not depend on it", 1,
               1e9),
        number("window", &C::window, "lines read before their sentences are tagged", 1, 1e9));
    return std::tuple_cat(model_fields<C>(), own, LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {{input}}; }
};
void validate(const TagOptions& options);

// Writes lines of columns with each word's label as one more column; empty lines and comments come back as they are, a
// line -DOCSTART- gets O (-X- from models whose labels mark no names), and a line of CoNLL-U that is not a word _. For
// text, writes a line "word label" per word and an empty line behind each sentence. Returns the number of words.
int64_t run_tag(const TagOptions& options);

}  // namespace fovea::tagging
