#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/text/clause_tagger.h"

namespace fovea::text {

// `fovea clauses`.
struct ClauseOptions {
  std::string input = "-", output = "-", dictionary, tagger, corrections;
  int64_t level = 0, word_column = 1, tag_column = 0, window = 10000;
  bool flags = false, label = false;

  static auto fields() {
    using O = ClauseOptions;
    return std::tuple(
        named("input", &O::input, "text, one sentence per line, or columns; may be compressed; - is standard input",
              "i"),
        named("output", &O::output, "where the clauses go; - is standard output", "o"),
        number("level", &O::level,
               "print the clauses of this level, 1 to 6, one line per sentence (0: of each level, a line each)", 0, 6),
        field("dictionary", &O::dictionary, "file of signal words (default: English)"),
        field(
            "tagger", &O::tagger,
            "a trained tagging model that gives the words their part-of-speech tags, or their labels as signal words"),
        number("tag-column", &O::tag_column,
               "the input has columns, a word per line and an empty line between sentences; part-of-speech tags are in "
               "this column, from 1 (0: the input is text; with --label: 2)",
               0, 1000),
        number("word-column", &O::word_column, "column of the words, from 1", 1, 1000),
        field("flags", &O::flags,
              "print each line with a word <c1> to <c6> before each signal word, the level of its kind, up to --level"),
        field("label", &O::label,
              "print the columns and one more: PUNCT, SCONJ, PRON, ADP, TO, PART or O for each word"),
        field("corrections", &O::corrections,
              "with --label: file of lines WORD TAG LABEL that win over the dictionary; the tag * is any"),
        number("window", &O::window, "with --tagger: sentences read before they are tagged", 1, 1e9));
  }

  // The files that the command reads.
  std::vector<std::vector<std::string>> inputs() const { return {{input}, {dictionary}, {corrections}}; }
};

// Loads the model of options.tagger once the options are found to fit together.
using TaggerLoader = std::function<ClauseTagger()>;

// Reads the input and writes the output; options without a tagger need no loader. Throws an Error of one line that
// names the place of what is wrong.
void run_clauses(const ClauseOptions& options, const TaggerLoader& load_tagger = {});

}  // namespace fovea::text
