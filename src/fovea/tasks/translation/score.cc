#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/strings.h"
#include "fovea/base/team_threads.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/tasks/score_signature.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/score_pairs.h"

namespace fovea::translation {
namespace {

struct Totals {
  int64_t sentences = 0, tokens = 0;
  double log_prob = 0;
};

// One line that says how the numbers were made, so that others can be compared with them.
std::string signature_of_pairs(const ScoreConfig& config, const LoadedModel& loaded, const Totals& totals) {
  const auto [source, target] = known_languages(loaded, {config.source_lang, config.target_lang});
  const std::string languages = source.empty() && target.empty() ? "" : cat("|languages:", source, "-", target);
  return cat("sentences:", totals.sentences, "|tokens:", totals.tokens, "|max-length:", config.max_length, languages,
             tasks::signature_end(config, loaded.model->config()));
}

std::string summary(const Totals& totals) {
  const double mean = totals.tokens > 0 ? -totals.log_prob / static_cast<double>(totals.tokens) : 0;
  return cat("sentences ", totals.sentences, " tokens ", totals.tokens, " log-prob ", fixed(totals.log_prob, 4),
             " ce-mean-words ", fixed(mean, 6), " perplexity ", fixed(std::exp(mean), 4));
}

}  // namespace

int64_t run_score(const ScoreConfig& given) {
  validate(given);
  // Each process of a team reads the text.
  if (std::ranges::find(given.train_sets, "-") != given.train_sets.end())
    require_one_process("fovea score --train-sets -");
  Collective& team = launched();
  ScoreConfig config = given;
  config.cpu_threads = threads_in_team(team, given.cpu_threads);
  require_parallel_text(config.train_sets);
  require_other_file("--output", config.output, config.train_sets);
  LoadedModel loaded = load_model(config);
  PairReader reader(config.train_sets);
  PairEncoder encoder(loaded, config.max_length, language_marks(loaded, {config.source_lang, config.target_lang}));
  std::optional<LineWriter> output;
  if (team.rank() == 0) output.emplace(config.output);
  Totals totals;
  const auto window = static_cast<size_t>(config.maxi_batch * config.mini_batch);
  for (;;) {
    const std::vector<SentencePair> pairs = encoder.encode(reader.next(window));
    if (pairs.empty()) break;
    const std::vector<double> scores =
        score_pairs(loaded.model, pairs, {config.mini_batch_words, config.mini_batch}, team);
    for (size_t i = 0; i < pairs.size(); ++i) {
      ++totals.sentences;
      totals.tokens += static_cast<int64_t>(pairs[i].target.size());
      totals.log_prob += scores[i];
      if (output && !config.summary) output->line(fixed(scores[i], 6));
    }
  }
  const std::string how = signature_of_pairs(config, loaded, totals);
  if (output && config.summary) {
    output->line(summary(totals));
    output->line(cat("signature ", how));
  } else {
    log::info(how);
  }
  if (output) output->close();
  encoder.report();
  team.finish();
  return totals.sentences;
}

}  // namespace fovea::translation
