#include <optional>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/analyze_report.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/unspaced.h"
#include "fovea/tasks/translation/analyze/analyze.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/tasks/translation/translator.h"

// The sweep of analyze.h.
namespace fovea::translation {
namespace {

// Throws the Error of the first mechanism that the model cannot use, before anything is measured.
void require_mechanisms(const AnalyzeOptions& options) {
  for (const std::string& entry : options.sweep) load_model(with_mechanism(options, entry));
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

}  // namespace

int64_t sweep_mechanisms(const AnalyzeOptions& options) {
  require_mechanisms(options);
  inspect::Sweep sweep{
      .unit = "target token", .units = 0, .beam_size = options.beam_size, .tokenize = options.tokenize, .points = {}};
  const metrics::Bleu bleu({.tokenize = options.tokenize});
  int64_t pairs = 0;
  for (const std::string& spec : options.sweep) {
    const Measured measured = measure(with_mechanism(options, spec), spec);
    if (measured.tokens == 0) throw Error("--train-sets: the text has no lines; expected one at least");
    sweep.units = measured.tokens, pairs = measured.pairs;
    sweep.points.push_back({spec, -measured.log_prob / static_cast<double>(measured.tokens),
                            options.beam_size > 0 ? bleu.score(measured.bleu).score : -1});
  }
  LineWriter output("-");
  output.write(options.json ? inspect::sweep_json(sweep) : inspect::sweep_table(sweep));
  output.close();
  if (options.output != "-") write_file(options.output, inspect::sweep_svg(sweep));
  return pairs;
}

}  // namespace fovea::translation
