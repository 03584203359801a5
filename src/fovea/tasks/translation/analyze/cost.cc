#include <torch/nn/module.h>

#include <algorithm>

#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/cost.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/translation/analyze/analyze.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/tasks/translation/translator.h"

// The cost of analyze.h.
namespace fovea::translation {
namespace {

constexpr int64_t kTenths = 10, kBeamOfSpeeds = 4;

std::vector<TextPair> first_pairs(const AnalyzeOptions& options) {
  PairReader reader(options.train_sets);
  std::vector<TextPair> pairs;
  while (std::ssize(pairs) < options.cost_pairs) {
    std::vector<TextPair> window = reader.next(static_cast<size_t>(options.cost_pairs - std::ssize(pairs)));
    if (window.empty()) break;
    std::move(window.begin(), window.end(), std::back_inserter(pairs));
  }
  if (std::ssize(pairs) < kTenths)
    throw Error(
        cat("--train-sets: got ", pairs.size(), " pairs; --cost measures ten groups, expected 10 pairs at least"));
  return pairs;
}

int64_t target_tokens(const std::vector<SentencePair>& pairs) {
  int64_t tokens = 0;
  for (const SentencePair& pair : pairs) tokens += std::ssize(pair.target);
  return tokens;
}

// Forward and backward passes over all pairs, without an update.
double training_speed(nn::Model& model, const std::vector<SentencePair>& pairs, const BatchLimits& limits) {
  const Stopwatch watch;
  for (const std::vector<int64_t>& batch : pair_batches(pairs, limits)) {
    throw_if_interrupted("measuring");
    const ForcedBatch forced(pairs, batch, model->output_weight().device());
    const nn::ForwardContext context{.training = true, .dropout_seed = 1};
    const at::Tensor memory = model->encode({forced.source.tokens, forced.source.offsets}, context);
    const at::Tensor hidden =
        model->decode({forced.input.tokens, forced.input.offsets, memory, forced.source.offsets}, context);
    ops::cross_entropy(hidden, model->output_layer(), forced.outputs, 0).loss.backward();
    model->zero_grad();
  }
  return static_cast<double>(target_tokens(pairs)) / watch.seconds();
}

double decoding_speed(Translator& translator, const std::vector<TextPair>& pairs) {
  const int64_t before = translator.counts().target_tokens;
  const Stopwatch watch;
  for (const TextPair& pair : pairs) translator.translate(std::vector<std::string>{pair.source});
  return static_cast<double>(translator.counts().target_tokens - before) / watch.seconds();
}

std::vector<inspect::SpeedRecord> speeds_of(LoadedModel& loaded, const AnalyzeOptions& options, const std::string& spec,
                                            const std::vector<TextPair>& texts) {
  PairEncoder encoder(loaded, options.max_length);
  const std::vector<SentencePair> tokens = encoder.encode(texts);
  std::vector<size_t> order(texts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tokens[a].source.size() < tokens[b].source.size(); });
  DecodeConfig decode;
  decode.beam_size = options.beam_size > 0 ? options.beam_size : kBeamOfSpeeds;
  decode.max_length = options.max_length;
  Translator translator(loaded, translator_options(decode));
  log::Progress progress(cat(spec, ", groups"), kTenths);
  std::vector<inspect::SpeedRecord> records;
  for (int64_t group = 0; group < kTenths; ++group) {
    const auto size = std::ssize(order);
    std::vector<TextPair> own_texts;
    std::vector<SentencePair> own;
    for (int64_t i = size * group / kTenths; i < size * (group + 1) / kTenths; ++i) {
      own_texts.push_back(texts[order[static_cast<size_t>(i)]]);
      own.push_back(tokens[order[static_cast<size_t>(i)]]);
    }
    inspect::SpeedRecord record{spec, group + 1, std::ssize(own), std::ssize(own.front().source),
                                std::ssize(own.back().source)};
    const BatchLimits limits{options.mini_batch_words, options.mini_batch};
    training_speed(loaded.model, own, limits);  // plans and buffers of these lengths
    record.training = training_speed(loaded.model, own, limits);
    record.decoding = decoding_speed(translator, own_texts);
    records.push_back(std::move(record));
    progress.at(static_cast<double>(group + 1));
  }
  progress.finish();
  encoder.report();
  return records;
}

ModelConfig trained_config(const AnalyzeOptions& options) {
  AnalyzeOptions own = with_model(options, options.models.front());
  static_cast<AttentionOverride&>(own) = {};
  return load_model(own).model->config();
}

}  // namespace

int64_t analyze_cost(const AnalyzeOptions& options) {
  std::vector<TextPair> texts;
  if (!options.train_sets.empty()) texts = first_pairs(options);
  const ModelConfig trained = trained_config(options);
  note_recurrent_decoder(trained);
  const auto measure = [&](const AttentionOverride& mechanisms, const std::string& spec, inspect::CostSpeeds& speeds) {
    AnalyzeOptions own = with_model(options, options.models.front());
    static_cast<AttentionOverride&>(own) = mechanisms;
    LoadedModel loaded = load_model(own);
    const auto measured = speeds_of(loaded, options, spec, texts);
    speeds.by_source.insert(speeds.by_source.end(), measured.begin(), measured.end());
  };
  inspect::write_costs(options, options, trained, measure);
  return std::ssize(texts);
}

}  // namespace fovea::translation
