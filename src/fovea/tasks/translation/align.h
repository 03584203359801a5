#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/spec/score_config.h"

namespace fovea::translation {

// `fovea align` for translation models.
struct AlignOptions : ModelOptions, LogOptions {
  std::vector<std::string> train_sets;
  std::string output = "-", subword = "hard", reverse_model, symmetrize, gold;
  int64_t layer = 0, head = 0, reverse_layer = -1, reverse_head = -1, gold_base = 0;
  bool shifted = false, gold_reversed = false, search = false, json = false;
  int64_t mini_batch_words = 4096, mini_batch = 256, maxi_batch = 20, max_length = 1000;

  static constexpr auto fields() {
    using C = AlignOptions;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets, "source and target text to align, one sentence per line, may be compressed",
              "t"),
        named("output", &C::output, "where the links go; - is standard output", "o"),
        number("layer", &C::layer, "decoder layer whose attention is read, from 1 (0: mean of all)", 0, 1000),
        number("head", &C::head, "head, from 1 (0: mean of all)", 0, 1024),
        field("shifted", &C::shifted, "read a target word from the step whose input it is, not from the one before"),
        choice(
            "subword", &C::subword,
            "link words if any of their pieces are linked (hard), or by the sum over source pieces and the mean over "
            "target pieces (soft)",
            "hard|soft"),
        field("reverse-model", &C::reverse_model, "model from target to source, for --symmetrize"),
        number("reverse-layer", &C::reverse_layer, "layer of the reverse model (-1: the number of --layer)", -1, 1000),
        number("reverse-head", &C::reverse_head, "head of the reverse model (-1: the number of --head)", -1, 1024),
        field("symmetrize", &C::symmetrize,
              "join both directions: intersect, union or grow-diag-final-and (default with --reverse-model)"),
        field("gold", &C::gold,
              "alignment to compare with: prints AER, precision and recall; 1-2 is a sure link, 1p2 or 1?2 a possible "
              "one"),
        number("gold-base", &C::gold_base, "number of the first word in --gold", 0, 1),
        field("gold-reversed", &C::gold_reversed, "the links of --gold have the target word first"),
        field("search", &C::search, "print AER for every layer and head, as it is and shifted; needs --gold"),
        field("json", &C::json, "print one JSON object instead of text"));
    return std::tuple_cat(ModelOptions::fields(), own, pair_batch_fields<C>(), LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, vocabs, {gold}}; }
};
void validate(const AlignOptions& options);

// Writes a line of links per pair or, with --gold, how they compare. Returns the number of pairs.
int64_t run_align(const AlignOptions& options);

}  // namespace fovea::translation
