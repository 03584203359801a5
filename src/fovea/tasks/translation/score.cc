#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/parallel_lines.h"
#include "fovea/decode/whole_segments.h"
#include "fovea/tasks/translation/load_model.h"
#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

// Both sides of the text as tokens, in windows.
class PairReader {
 public:
  PairReader(const ScoreConfig& config, const LoadedModel& model)
      : lines_(config.train_sets.at(0), config.train_sets.at(1)),
        model_(model),
        limit_(line_limit(model.model->config(), config.max_length)) {}

  std::vector<SentencePair> next(size_t count) {
    std::vector<SentencePair> pairs;
    std::string source, target;
    for (size_t bytes = 0; pairs.size() < count && bytes < decode::kWindowBytes && lines_.next(source, target);) {
      bytes += decode::bytes_of(source) + decode::bytes_of(target);
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
    if (!cuts.empty()) cut_.warn(lines_.line_number(), join(cuts, "; "));
  }

  data::ParallelLines lines_;
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

int64_t run_score(const ScoreConfig& config) {
  validate(config);
  for (const std::string& path : config.train_sets) {
    if (path != "-") require_file(path, "--train-sets");
  }
  require_other_file("--output", config.output, config.train_sets);
  LoadedModel loaded = load_model(config);
  decode::warn_of_whole_segments(loaded.model->config());
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

}  // namespace fovea::translation
