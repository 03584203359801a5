#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/inspect/analyze_options.h"
#include "fovea/metrics/tokenize.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/run_options.h"

namespace fovea::translation {

// `fovea analyze` for translation models.
struct AnalyzeOptions : ModelOptions, LogOptions, inspect::AnalysisOptions {
  std::string target, unit = "word", by, tokenize = "13a";
  int64_t layer = -1, head = -1, beam_size = 0, cost_pairs = 1000;
  int64_t mini_batch_words = 4096, mini_batch = 256, maxi_batch = 20, max_length = 1000;

  static auto fields() {
    using C = AnalyzeOptions;
    const auto model = std::tuple(
        named("model", &C::models,
              "folder of a run or of a checkpoint; with several of one shape, figures are means and deviations", "m"),
        named("vocabs", &C::vocabs, "SentencePiece models (default: those of the checkpoint)", "v"));
    const auto machine =
        std::tuple(choice("precision", &C::precision, "type of matrix products and activations", "float32|bfloat16"));
    const auto own = std::tuple(
        field("source", &C::source, "analyse this sentence; without other options, draw its cross-attention"),
        field("target", &C::target, "its translation (default: the model's own)"),
        number("layer", &C::layer,
               "decoder layer of the picture, from 1 (0: mean of all; -1: that of the sharpest head)", -1, 1000),
        number("head", &C::head, "head of the picture, from 1 (0: mean of all; -1: the sharpest)", -1, 1024),
        number("beam-size", &C::beam_size,
               "beam of translations: for the picture (0: 5), for speeds (0: 4), and for BLEU in --sweep (0: no BLEU)",
               0, 1000),
        choice("tokenize", &C::tokenize, "tokens of BLEU in --sweep, like --tokenize of evaluate",
               metrics::tokenizer_choices()),
        choice("unit", &C::unit, "figures count words, or pieces of the vocabularies", "word|piece"),
        field("by", &C::by,
              "figures of the decoder by the target word just produced: previous (the word), or column:FILE (its entry "
              "in FILE, one line per pair with as many entries as target words)"));
    const auto batches =
        std::tuple(number("cost-pairs", &C::cost_pairs,
                          "pairs of --train-sets whose speed --cost measures, the first ones", 10, 1e6),
                   named(number("mini-batch-words", &C::mini_batch_words,
                                "target tokens in a batch, at most; of the source, four times as many", 1, 1e9),
                         "max-tokens"),
                   number("mini-batch", &C::mini_batch, "sentences in a batch, at most", 1, 1e9),
                   number("maxi-batch", &C::maxi_batch, "batches' worth of lines sorted by length together", 1, 1e6),
                   number("max-length", &C::max_length, "longer lines, in tokens, are cut, with a warning", 1, 1e6));
    return std::tuple_cat(model, AttentionOverride::fields(), machine, MachineOptions::fields(), own,
                          inspect::AnalysisOptions::fields<C>(
                              "source and target text to analyse, one sentence per line, may be compressed"),
                          batches, LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, vocabs}; }
};
void validate(const AnalyzeOptions& options);

// Draws or measures the attention of a model, by the options. Returns the number of pairs read.
int64_t run_analyze(const AnalyzeOptions& options);

// The parts of run_analyze(): the options for a model of --model; the translation of --source by the first model.
AnalyzeOptions with_model(const AnalyzeOptions& options, const std::string& model);
std::string translation_of_source(const AnalyzeOptions& options);
// The picture of --source, the figures of the text, and the costs.
void draw_sentence(const AnalyzeOptions& options);
int64_t analyze_text(const AnalyzeOptions& options);
int64_t analyze_cost(const AnalyzeOptions& options);

// Says in the log if the decoder has no self-attention to show.
void note_recurrent_decoder(const ModelConfig& model);

}  // namespace fovea::translation
