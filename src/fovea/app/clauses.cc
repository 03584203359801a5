#include <string>
#include <tuple>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/clause_tagger.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/clause_command.h"

namespace fovea::app {
namespace {

struct ClausesConfig : text::ClauseOptions, MachineOptions, LogOptions {
  int64_t mini_batch_words = 4096;

  static auto fields() {
    return std::tuple_cat(
        text::ClauseOptions::fields(),
        std::tuple(number("mini-batch-words", &ClausesConfig::mini_batch_words,
                          "with --tagger: pieces computed together; results do not depend on it", 1, 1e9)),
        MachineOptions::fields(), LogOptions::fields());
  }
};

// Refuses the options of a model's computation if there is no tagger.
void require_tagger_for_its_options(const ClausesConfig& config) {
  if (!config.tagger.empty()) return;
  const auto refuse = [](bool is_given, const char* option) {
    if (is_given) throw UsageError(cat("--", option, ": it is for --tagger; give --tagger or leave it out"));
  };
  refuse(config.mini_batch_words != ClausesConfig{}.mini_batch_words, "mini-batch-words");
  refuse(config.devices != MachineOptions{}.devices, "devices");
}

}  // namespace

int run_clauses(const std::vector<std::string>& arguments) {
  ClausesConfig config;
  Options options("clauses",
                  "Splits sentences into clauses at signal words, in six levels: punctuation, conjunctions, relative "
                  "words, prepositions, infinitives, participles (which need tags).",
                  "[--level L] < text");
  options.add(config, "Options");
  options.epilogue(
      "  fovea clauses --level 2 < test.en\n"
      "  fovea clauses --level 6 --tagger pos < test.en\n"
      "  fovea clauses --label < words-and-tags > words-tags-and-labels\n"
      "  fovea clauses --level 6 --tag-column 2 < words-and-tags");
  if (!options.parse(arguments)) return 0;
  if (!config.tagger.empty()) require_torch();
  configure_log(config, config.inputs());
  require_tagger_for_its_options(config);
  text::run_clauses(config, [&] { return models::load_clause_tagger(config.tagger, config, config.mini_batch_words); });
  return 0;
}

}  // namespace fovea::app
