#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/text/corpus_formats.h"

namespace fovea::text {

struct CorpusOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::vector<std::string> languages;
  std::string format = "auto";
  int64_t source_column = 1, target_column = 2;
  int64_t valid = 1000, test = 1000, seed = 1;
  std::string sentences = "auto";
  int64_t min_words = 1, max_words = 100;
  double max_ratio = 3, max_copied = 0.6;
  bool documents = false;
  bool keep_duplicates = false, keep_markup = false, keep_accelerators = false;
  int64_t generate = 0;
  std::vector<int64_t> split_bytes;

  // The languages, empty where the files are to say.
  std::string source() const { return languages.empty() ? "" : languages[0]; }
  std::string target() const { return languages.empty() ? "" : languages[1]; }

  static auto fields() {
    using O = CorpusOptions;
    return std::tuple(
        named("output", &O::output, "folder to write train, valid and test into, each with language suffixes", "o"),
        choice("format", &O::format, "format of the input files; auto: chosen by their names", corpus_format_choices()),
        at_most(2, named("languages", &O::languages,
                         "from and into, the suffixes of the files too: en de (auto: from the files)", "l")),
        number("source-column", &O::source_column, "column of the source text in TSV files, from 1", 1, 1000),
        number("target-column", &O::target_column, "column of the target text in TSV files, from 1", 1, 1000),
        number("valid", &O::valid, "sentences to set aside for validation", 0, 1e9),
        number("test", &O::test, "sentences to set aside for the test", 0, 1e9),
        number("seed", &O::seed, "random seed for choosing these sentences, and for --generate", 0, 9e15),
        choice("sentences", &O::sentences, "split segments into sentences; auto: those of catalogues",
               "auto|split|keep"),
        number("min-words", &O::min_words, "drop shorter segments", 1, 1e6),
        number("max-words", &O::max_words, "drop longer segments; two Chinese, Japanese or Thai letters are a word", 1,
               1e9),
        number("max-ratio", &O::max_ratio, "drop pairs whose lengths differ by more, beyond what the corpus shows", 1,
               1e9),
        number("max-copied", &O::max_copied, "drop pairs that share more of their words: untranslated", 0, 1),
        field(
            "documents", &O::documents,
            "keep sentences in order and drop whole documents; a line <d> or an empty line begins a document; --valid "
            "and --test take whole documents until they have N sentences"),
        field("keep-duplicates", &O::keep_duplicates, "keep pairs that occur again"),
        field("keep-markup", &O::keep_markup, "leave tags and entities as they are"),
        field("keep-accelerators", &O::keep_accelerators, "leave the marks of _File, ~File and &File"),
        number("generate", &O::generate,
               "make up N pairs of sentences with a small two-language grammar, with alignments", 0, 1e9),
        at_most(3, number("split-bytes", &O::split_bytes,
                          "cut one file of any kind into train, valid and test, which get the first N bytes, the next "
                          "N and the next N",
                          1, 1e15)));
  }
};

}  // namespace fovea::text
