#include "fovea/decode/score_pairs.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/decode/load_model.h"
#include "fovea/decode/run.h"
#include "fovea/decode/translator.h"
#include "fovea/ops/step.h"

namespace fovea::decode {
namespace {

// Both sides of the text in step, in windows.
class PairReader {
 public:
  PairReader(const ScoreConfig& config, const LoadedModel& model)
      : source_(config.train_sets.at(0)),
        target_(config.train_sets.at(1)),
        model_(model),
        limit_(line_limit(model.model->config(), config.max_length)) {}

  std::vector<SentencePair> next(size_t count) {
    std::vector<SentencePair> pairs;
    std::string source, target;
    for (size_t bytes = 0; pairs.size() < count && bytes < kWindowBytes;) {
      const bool more_source = source_.next_text(source), more_target = target_.next_text(target);
      if (more_source != more_target) {
        const LineReader& shorter = more_source ? target_ : source_;
        throw Error(cat("--train-sets: '", shorter.path(), "' ends after ", count_lines(shorter.line_number()), ", '",
                        (more_source ? source_ : target_).path(), "' has more; expected as many lines in both"));
      }
      if (!more_source) break;
      bytes += bytes_of(source) + bytes_of(target);
      Encoded both[] = {encode_line(model_.source, source, limit_.tokens),
                        encode_line(model_.target, target, limit_.tokens)};
      warn_of_cuts(both[0], both[1]);
      pairs.push_back({std::move(both[0].tokens), std::move(both[1].tokens)});
    }
    return pairs;
  }

  void report() const { warn_of_cut_lines(cut_.count(), limit_); }

 private:
  // Once a pair.
  void warn_of_cuts(const Encoded& source, const Encoded& target) {
    std::vector<std::string> cuts;
    if (source.cut_from > 0) cuts.push_back(cat("source ", cut_message(source, limit_)));
    if (target.cut_from > 0) cuts.push_back(cat("target ", cut_message(target, limit_)));
    if (!cuts.empty()) cut_.warn(source_.line_number(), join(cuts, "; "));
  }

  LineReader source_, target_;
  const LoadedModel& model_;
  LineLimit limit_;
  LineWarnings cut_;
};

struct Totals {
  int64_t sentences = 0, tokens = 0;
  double log_prob = 0;
};

std::string summary(const Totals& totals) {
  const double mean = totals.tokens > 0 ? -totals.log_prob / static_cast<double>(totals.tokens) : 0;
  return cat("sentences ", totals.sentences, " tokens ", totals.tokens, " log-prob ", fixed(totals.log_prob, 4),
             " ce-mean-words ", fixed(mean, 6), " perplexity ", fixed(std::exp(mean), 4));
}

}  // namespace

std::vector<double> score_pairs(nn::Transformer& model, std::span<const SentencePair> pairs,
                                const BatchLimits& limits) {
  const c10::InferenceMode guard;
  const at::Device device = model->output_weight().device();
  std::vector<Sentence> targets;
  for (const SentencePair& pair : pairs) targets.push_back(pair.target);
  std::vector<double> scores(pairs.size());
  for (const std::vector<int64_t>& batch : length_batches(targets, limits)) {
    throw_if_interrupted("scoring");
    std::vector<Sentence> inputs;
    std::vector<const Sentence*> sources, input_pointers, outputs;
    for (const int64_t i : batch) {
      const SentencePair& pair = pairs[static_cast<size_t>(i)];
      inputs.push_back({pair.target.back()});  // </s> starts a target and ends it
      inputs.back().insert(inputs.back().end(), pair.target.begin(), pair.target.end() - 1);
      sources.push_back(&pair.source);
      outputs.push_back(&pair.target);
    }
    for (const Sentence& input : inputs) input_pointers.push_back(&input);
    const PackedSentences source = pack(sources, device), input = pack(input_pointers, device);
    const at::Tensor memory = model->encode(source.tokens, source.offsets, {});
    const at::Tensor hidden = model->decode(input.tokens, input.offsets, memory, source.offsets, {});
    const at::Tensor nll =
        ops::token_nll(hidden, model->output_weight(), model->output_bias(), pack(outputs, device).tokens).cpu();
    const auto* values = nll.const_data_ptr<float>();
    const auto* bounds = input.offsets.const_data_ptr<int64_t>();
    for (size_t i = 0; i < batch.size(); ++i) {
      double sum = 0;
      for (int64_t t = bounds[i]; t < bounds[i + 1]; ++t) sum += values[t];
      if (!std::isfinite(sum)) refuse_diverged();
      scores[static_cast<size_t>(batch[i])] = -sum;
    }
  }
  return scores;
}

int64_t run_score(const ScoreConfig& config) {
  validate(config);
  for (const std::string& path : config.train_sets) {
    if (path != "-") require_file(path, "--train-sets");
  }
  require_other_file("--output", config.output, config.train_sets);
  LoadedModel loaded = load_model(config);
  PairReader reader(config, loaded);
  LineWriter output(config.output);
  Totals totals;
  const auto window = static_cast<size_t>(config.maxi_batch * config.mini_batch);
  for (;;) {
    const std::vector<SentencePair> pairs = reader.next(window);
    if (pairs.empty()) break;
    const std::vector<double> scores = score_pairs(loaded.model, pairs, {config.mini_batch_words, config.mini_batch});
    for (size_t i = 0; i < pairs.size(); ++i) {
      ++totals.sentences;
      totals.tokens += static_cast<int64_t>(pairs[i].target.size());
      totals.log_prob += scores[i];
      if (!config.summary) output.line(fixed(scores[i], 6));
    }
  }
  if (config.summary) output.line(summary(totals));
  output.close();
  reader.report();
  return totals.sentences;
}

}  // namespace fovea::decode
