#include "fovea/tasks/language/validation.h"

#include <torch/nn/module.h>

#include <memory>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/tasks/language/load_model.h"
#include "fovea/tasks/language/measures.h"
#include "fovea/tasks/language/score_text.h"
#include "fovea/tasks/language/task.h"

namespace fovea::language {

data::TokenText load_text(const std::vector<std::string>& files, const text::Units& units, const LanguageConfig& config,
                          const data::TokenTextOptions& options) {
  if (files.empty()) return {};
  data::TokenTextOptions complete = options;
  complete.documents = parse_choice<data::Documents>(data::kDocumentsNames, config.documents, "--documents: got");
  return data::load_token_text(files, units, complete);
}

std::vector<std::string> default_measures(const text::Units& units) {
  if (units.is_bytes()) return {"bits-per-byte"};
  return {"perplexity", "perplexity-per-word"};
}

std::vector<double> values_of_text(const ValidatedLanguageModel& model, const data::TokenText& text,
                                   const std::vector<std::string>& names) {
  const int64_t length = model.config.segment_length;
  const ScoreText scorer(
      model.model,
      {.context = length, .stride = length, .mini_batch = model.mini_batch, .memory = model.config.memory_length},
      model.team);
  return measures().values(scorer.run(text, model.begin), names);
}

tasks::ModelValidation LanguageTask::load_validation(const TrainConfig& config, const Options& options) {
  if (options.valid_sets.empty()) throw UsageError("--valid-sets is missing; expected one or more text files");
  const auto loaded =
      std::make_shared<LoadedModel>(load_model(tasks::options_of_validated<LanguageModelOptions>(config)));
  const auto text = std::make_shared<data::TokenText>(
      load_text(options.valid_sets, loaded->units, loaded->config,
                {.threads = tasks::encoding_threads(config), .option = "--valid-sets"}));
  return {.module = loaded->model.ptr(),
          .measures = measures().known(),
          .default_measures = language::default_measures(loaded->units),
          .validate = [loaded, text, mini_batch = options.mini_batch](const std::vector<std::string>& names) {
            return values_of_text({loaded->model, loaded->config, mini_batch, loaded->units.begin()}, *text, names);
          }};
}

}  // namespace fovea::language
