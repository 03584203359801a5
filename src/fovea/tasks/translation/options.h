#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/tokenize.h"
#include "fovea/spec/config_problems.h"
#include "fovea/text/language_files.h"

namespace fovea::translation {

// The options that training takes for this task alone. Marian's names where it has them.
struct Options {
  std::vector<std::string> train_sets, vocabs, valid_sets;
  int64_t mini_batch_words = 4096, mini_batch = 0, maxi_batch = 200;
  int64_t max_length = 100;
  bool max_length_crop = false;
  std::string encoded_text;
  std::string clause_dictionary, clause_tagger;
  bool documents = false;
  int64_t document_length = 512;
  double label_smoothing = 0.1;
  int64_t valid_beam_size = 1, valid_mini_batch_words = 4096;
  double valid_max_length_factor = 2.0;
  std::string valid_tokenize = "13a";

  static auto fields() {
    using C = Options;
    return std::tuple(
        named("train-sets", &C::train_sets, "source and target text, one sentence per line, may be compressed", "t"),
        named("vocabs", &C::vocabs,
              "SentencePiece models of source and target; with tied embeddings, one file is enough", "v"),
        field("valid-sets", &C::valid_sets, "source and target text for validation"),
        named(number("mini-batch-words", &C::mini_batch_words,
                     "target tokens in a batch, at most; of the source, four times as many", 1, 1e9),
              "max-tokens"),
        number("mini-batch", &C::mini_batch, "sentences in a batch, at most (0: no limit)", 0, 1e9),
        number("maxi-batch", &C::maxi_batch, "batches' worth of sentences sorted by length together", 1, 1e6),
        number("max-length", &C::max_length, "longer training sentences, in tokens, are left out", 1, 1e6),
        field("max-length-crop", &C::max_length_crop, "cut longer training sentences instead of leaving them out"),
        field("encoded-text", &C::encoded_text,
              "folder for the encoded training text, which later trainings read; training then takes no more memory "
              "for a larger text (default: the folder of the text for more than 1 GiB of it, else memory)"),
        field(
            "clause-dictionary", &C::clause_dictionary,
            "signal words that split the source into clauses, for mechanisms with clauses and --clause-flags (default: "
            "English)"),
        field("clause-tagger", &C::clause_tagger,
              "a trained tagging model that finds the signal words of mechanisms with clauses, by its parts of speech "
              "or its labels of signal words; the checkpoint keeps it"),
        field("documents", &C::documents,
              "train on documents in blocks of sentences; a line <d> or an empty line begins a document"),
        number("document-length", &C::document_length,
               "with --documents: tokens in a block, at most, on either side; takes the place of --max-length", 2, 1e6),
        number("label-smoothing", &C::label_smoothing, "share of the target's mass spread over the vocabulary", 0,
               0.99),
        number("valid-beam-size", &C::valid_beam_size, "beam of the translations in validation", 1, 1000),
        number("valid-mini-batch-words", &C::valid_mini_batch_words, "tokens in a validation batch", 1, 1e9),
        number("valid-max-length-factor", &C::valid_max_length_factor, "like --max-length-factor of translate", 0.1,
               100),
        choice("valid-tokenize", &C::valid_tokenize, "tokens of BLEU in validation, like --tokenize of evaluate",
               metrics::tokenizer_choices()));
  }

  // The files that training reads.
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, valid_sets, vocabs, {clause_dictionary}}; }
};

inline void add_problems(const Options& options, Problems& problems) {
  problems.add_ranges(options);
  problems.add_unless_two_sides("train-sets", options.train_sets);
  if (options.vocabs.size() != 1) problems.add_unless_two_sides("vocabs", options.vocabs);
  problems.add_if(options.documents && (options.max_length_crop || options.max_length != Options{}.max_length),
                  "--documents has no --max-length; use --document-length");
  problems.add_if(!options.documents && options.document_length != Options{}.document_length,
                  "--document-length is for --documents, which is missing");
  if (!options.valid_sets.empty()) problems.add_unless_two_sides("valid-sets", options.valid_sets);
  problems.add_if(text::are_swapped_sides(options.train_sets, options.valid_sets),
                  cat("--valid-sets: got ", join(options.valid_sets, " "), ", but --train-sets are ",
                      join(options.train_sets, " "), "; give the source first in both"));
}

}  // namespace fovea::translation
