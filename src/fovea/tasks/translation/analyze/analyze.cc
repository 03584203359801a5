#include "fovea/tasks/translation/analyze/analyze.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/sweep.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/unspaced.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/score_config.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

using Mode = inspect::AnalysisMode;
using inspect::AnalysisUse;

constexpr auto kPictureOnly = static_cast<uint8_t>(Mode::kPicture);
constexpr uint8_t kWithBatches = Mode::kFigures | Mode::kSweep | Mode::kSpeeds;
constexpr std::array kUses = {
    AnalysisUse{"layer", kPictureOnly},
    AnalysisUse{"head", kPictureOnly},
    AnalysisUse{"target", Mode::kPicture | Mode::kFigures},
    AnalysisUse{"by", static_cast<uint8_t>(Mode::kFigures)},
    AnalysisUse{"beam-size", kWithBatches | Mode::kPicture},
    AnalysisUse{"tokenize", static_cast<uint8_t>(Mode::kSweep)},
    AnalysisUse{"cost-pairs", static_cast<uint8_t>(Mode::kSpeeds)},
    AnalysisUse{"mini-batch-words", kWithBatches},
    AnalysisUse{"mini-batch", kWithBatches},
    AnalysisUse{"maxi-batch", Mode::kFigures | Mode::kSweep},
    AnalysisUse{"max-length", kWithBatches},
};

Mode mode_of(const AnalyzeOptions& options) {
  const Mode mode = inspect::mode_of(options);
  const bool is_picture = !options.source.empty() && !options.json && options.by.empty();
  return mode == Mode::kFigures && is_picture ? Mode::kPicture : mode;
}

// A beam translates the text of --source, but nothing of --train-sets where figures are asked for.
bool leaves_beam_unread(const AnalyzeOptions& options, Mode mode) {
  const bool has_target = !options.target.empty() || (mode == Mode::kFigures && !options.train_sets.empty());
  return options.beam_size > 0 && has_target && (mode == Mode::kPicture || mode == Mode::kFigures);
}

metrics::BleuStats bleu_of(Translator& translator, const metrics::Bleu& bleu, const std::vector<TextPair>& pairs) {
  std::vector<std::string> sources;
  for (const TextPair& pair : pairs) sources.push_back(pair.source);
  const auto translations = translator.translate(sources);
  metrics::BleuStats sum;
  for (size_t i = 0; i < pairs.size(); ++i)
    sum += bleu.segment(translations[i].front().text, std::vector<std::string>{pairs[i].target});
  return sum;
}

void warn_of_tokens(const std::vector<TextPair>& pairs, const std::string& tokenize) {
  std::vector<std::string> references;
  for (const TextPair& pair : pairs) references.push_back(pair.target);
  const std::string_view better = metrics::better_tokenizer(references, tokenize);
  if (!better.empty()) log::warn(metrics::unspaced_message("--tokenize", tokenize, better));
}

struct Measured {
  double log_prob = 0;
  int64_t tokens = 0, pairs = 0;
  metrics::BleuStats bleu;
};

Measured measure(const AnalyzeOptions& options, const std::string& spec) {
  LoadedModel loaded = load_model(options);
  PairEncoder encoder(loaded, options.max_length);
  const metrics::Bleu bleu({.tokenize = options.tokenize});
  std::optional<Translator> translator;
  if (options.beam_size > 0) {
    DecodeConfig decode;
    decode.beam_size = options.beam_size;
    decode.max_length = options.max_length;
    translator.emplace(loaded, translator_options(decode));
  }
  PairReader reader(options.train_sets);
  log::Progress progress(cat(spec, ", pairs"), 0);
  Measured sum;
  for (;;) {
    const std::vector<TextPair> window = reader.next(static_cast<size_t>(options.maxi_batch * options.mini_batch));
    if (window.empty()) break;
    if (translator && sum.pairs == 0 && spec == options.sweep.front()) warn_of_tokens(window, options.tokenize);
    const std::vector<SentencePair> tokens = encoder.encode(window);
    for (const double score : score_pairs(loaded.model, tokens, {options.mini_batch_words, options.mini_batch}))
      sum.log_prob += score;
    for (const SentencePair& pair : tokens) sum.tokens += std::ssize(pair.target);
    if (translator) sum.bleu += bleu_of(*translator, bleu, window);
    sum.pairs += std::ssize(window);
    progress.at(static_cast<double>(sum.pairs));
  }
  progress.finish();
  encoder.report();
  return sum;
}

int64_t sweep_mechanisms(const AnalyzeOptions& options) {
  const AnalyzeOptions own = with_model(options, options.models.front());
  // Throws for a mechanism that the model cannot use before anything is measured.
  for (const std::string& spec : options.sweep) load_model(inspect::with_mechanism(own, spec));
  inspect::Sweep sweep{
      .unit = "target token", .units = 0, .beam_size = options.beam_size, .tokenize = options.tokenize, .points = {}};
  const metrics::Bleu bleu({.tokenize = options.tokenize});
  int64_t pairs = 0;
  for (const std::string& spec : options.sweep) {
    const Measured measured = measure(inspect::with_mechanism(own, spec), spec);
    if (measured.tokens == 0) throw Error("--train-sets: the text has no lines; expected one at least");
    sweep.units = measured.tokens, pairs = measured.pairs;
    sweep.points.push_back({spec, -measured.log_prob / static_cast<double>(measured.tokens),
                            options.beam_size > 0 ? bleu.score(measured.bleu).score : -1});
  }
  inspect::write_sweep(options, sweep);
  return pairs;
}

}  // namespace

void validate(const AnalyzeOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(with_model(options, options.models.empty() ? "" : options.models.front()), problems);
  const bool has_source = !trim(options.source).empty();
  inspect::AnalysisOptions common = options;
  if (!has_source) common.source.clear();
  inspect::add_analysis_problems(common, problems);
  if (!options.train_sets.empty()) add_parallel_text_problems(options.train_sets, problems);
  problems.add_if(options.train_sets.empty() && !options.sweep.empty() && !options.cost,
                  "--sweep needs --train-sets, the text to measure");
  problems.add_if(!options.target.empty() && !has_source, "--target needs --source");
  const bool by_column = options.by.starts_with("column:");
  problems.add_if(!options.by.empty() && options.by != "previous" && !by_column,
                  cat("--by: got '", options.by, "'; expected previous or column:FILE"));
  problems.add_if(!options.by.empty() && options.unit != "word", "--by needs --unit word");
  problems.add_if(by_column && options.train_sets.empty(), "--by column:FILE needs --train-sets");
  const Mode mode = mode_of(options);
  inspect::add_unread_problems(options, mode, kUses, problems);
  problems.add_if(
      leaves_beam_unread(options, mode),
      "--beam-size: is for a translation of --source, --sweep and --cost; got a text with its target; leave "
      "it out");
  problems.add_if(mode == Mode::kSweep && options.beam_size == 0 && options.tokenize != AnalyzeOptions().tokenize,
                  "--tokenize: is for BLEU; add --beam-size, or leave it out");
  problems.add_if(mode == Mode::kPicture && options.models.size() > 1,
                  cat("--model: got ", options.models.size(), " models; the picture of --source is of one model"));
  inspect::add_rereading_problem(options, problems);
  inspect::add_picture_problem(options, mode, problems);
  problems.throw_if_any();
}

AnalyzeOptions with_model(const AnalyzeOptions& options, const std::string& model) {
  AnalyzeOptions own = options;
  own.model = model;
  return own;
}

void note_recurrent_decoder(const ModelConfig& model) {
  if (!has_recurrent_decoder(model)) return;
  log::info("the decoder has an SSRU in the place of self-attention: only the encoder and cross-attention are shown");
}

int64_t run_analyze(const AnalyzeOptions& options) {
  validate(options);
  if (!options.train_sets.empty()) require_parallel_text(options.train_sets);
  if (options.output != "-") require_writable("--output", options.output);
  switch (mode_of(options)) {
    case Mode::kCost:
    case Mode::kSpeeds:
      return analyze_cost(options);
    case Mode::kSweep:
      return sweep_mechanisms(options);
    case Mode::kFigures:
      return analyze_text(options);
    case Mode::kPicture:
      break;
  }
  draw_sentence(options);
  return 1;
}

}  // namespace fovea::translation
