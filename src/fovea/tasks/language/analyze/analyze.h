#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/data/token_text.h"
#include "fovea/inspect/analyze_options.h"
#include "fovea/tasks/language/model_options.h"

namespace fovea::language {

struct LoadedModel;

// `fovea analyze` for language models.
struct AnalyzeOptions : LanguageModelOptions, LogOptions, inspect::AnalysisOptions {
  std::string unit = "word";
  int64_t segment = 0, mini_batch = 16, cost_units = 16384;

  static constexpr auto fields() {
    using C = AnalyzeOptions;
    const auto own = std::tuple(
        named("model", &C::models,
              "folder of a run or of a checkpoint; with several of one shape, figures are means and deviations", "m"),
        field("attention", &C::attention, "use this mechanism instead of the trained one, in every layer"),
        field("attention-decoder", &C::attention_decoder, "use this mechanism in the decoder's self-attention"),
        choice("precision", &C::precision, "type of matrix products and activations", "float32|bfloat16"),
        number("memory-length", &C::memory_length,
               "units before each segment that the model sees too (-1: as it was trained)", -1, 1 << 24),
        field("same-length", &C::same_length,
              "every unit sees itself and --memory-length units before it, not those of its segment as well"),
        field("source", &C::source, "analyse this text"),
        choice("unit", &C::unit, "figures count words, or the model's units (pieces or bytes)", "word|piece"),
        number("segment", &C::segment, "units of a segment (0: as it was trained)", 0, 1 << 24),
        number("mini-batch", &C::mini_batch, "segments of a pass in --sweep and --cost, at most", 1, 1e6),
        number("cost-units", &C::cost_units,
               "units of --train-sets on which --cost measures training at each of --lengths, the first ones; at least "
               "one segment",
               1, 1e9));
    return std::tuple_cat(
        own, MachineOptions::fields(),
        inspect::AnalysisOptions::fields<C>("text to analyse, may be compressed; - is standard input"),
        LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets}; }
};
void validate(const AnalyzeOptions& options);

// Returns the number of units read.
int64_t run_analyze(const AnalyzeOptions& options);

// Parts of run_analyze(): the options with the first --model; the text, or --source, in the model's units.
AnalyzeOptions with_first_model(const AnalyzeOptions& options);
data::TokenText read_text(const AnalyzeOptions& options, const LoadedModel& loaded);
int64_t analyze_cost(const AnalyzeOptions& options);

}  // namespace fovea::language
