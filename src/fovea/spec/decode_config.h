#pragma once
#include <string>
#include <vector>

#include "fovea/spec/beam_config.h"
#include "fovea/spec/run_options.h"

namespace fovea {

// Translation with a trained model.
struct DecodeConfig : ModelOptions, BeamConfig, LogOptions {
  std::string input = "-", output = "-";
  int64_t mini_batch_words = 2048, mini_batch = 64, maxi_batch = 100;
  double max_length_factor = 3;
  int64_t max_length = 1000;
  bool documents = false;
  int64_t document_length = 512;
  bool alignment = false, alignment_shifted = false;
  int64_t alignment_layer = 0, alignment_head = 0;
  std::string terms, source_lang, target_lang;

  static constexpr auto fields() {
    using C = DecodeConfig;
    const auto files = std::tuple(
        named("input", &C::input, "text, one sentence per line, may be compressed; - is standard input", "i"),
        named("output", &C::output, "where the translations go; - is standard output", "o"));
    const auto own = std::tuple(
        field(
            "source-lang", &C::source_lang,
            "language of the lines, whose mark stands before each: the code in a mark of the model, e.g. en for >>en<< "
            "(models with marks of both sides)"),
        field("target-lang", &C::target_lang, "language to translate into, by the code in a mark of the model"),
        field("documents", &C::documents,
              "translate documents in blocks of sentences; a line <d> or an empty line begins a document"),
        number("document-length", &C::document_length, "tokens in a block of a document, at most", 2, 1e6),
        field("alignment", &C::alignment,
              "links between source and target words beside each translation: text ||| 0-0 1-2"),
        number("alignment-layer", &C::alignment_layer,
               "decoder layer whose cross-attention makes the links, from 1 (0: mean of all)", 0, 1000),
        number("alignment-head", &C::alignment_head, "its head, from 1 (0: mean of all)", 0, 1024),
        field("alignment-shifted", &C::alignment_shifted,
              "link a target word by the step whose input it is, not by the one before"),
        field("terms", &C::terms,
              "file of lines SOURCE<TAB>TARGET: where a source has these words, its translation has their target"),
        allow_unk_field("translations may have unknown words, which are shown as \u2047"),
        named(number("mini-batch-words", &C::mini_batch_words, "source tokens in a batch, at most", 1, 1e9),
              "max-tokens"),
        number("mini-batch", &C::mini_batch, "sentences in a batch, at most", 1, 1e9),
        number("maxi-batch", &C::maxi_batch, "batches' worth of lines sorted by length together", 1, 1e6),
        number("max-length-factor", &C::max_length_factor, "longest translation: X times the tokens of the source", 0.1,
               1000),
        number("max-length", &C::max_length, "longer source lines, in tokens, are cut, with a warning", 1, 1e6));
    const auto model = ModelOptions::fields("float32|bfloat16|int8",
                                            "type of matrix products and activations; int8: of the "
                                            "layers' products only");
    return std::tuple_cat(model, files, BeamConfig::fields(), own, LogOptions::fields());
  }

  // The files that the command reads.
  std::vector<std::vector<std::string>> inputs() const {
    std::vector<std::vector<std::string>> files = {vocabs, {input}};
    if (!terms.empty()) files.push_back({terms});
    return files;
  }
};

void validate(const DecodeConfig& config);

}  // namespace fovea
