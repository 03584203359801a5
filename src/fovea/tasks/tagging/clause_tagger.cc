#include "fovea/tasks/tagging/clause_tagger.h"

#include <algorithm>
#include <memory>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/open_checkpoint.h"
#include "fovea/models/tagging/loaded_tagger.h"
#include "fovea/text/clause_dictionary.h"

namespace fovea::tagging {
namespace {

bool is_signal_label(const std::string& label) {
  return std::ranges::find(text::kSignalLabels, label) != text::kSignalLabels.end();
}

// Universal parts of speech have PUNCT and ADP too, but no O.
bool labels_signals(const LabelSet& labels) {
  const auto is_known = [&](const std::string& label) {
    return label == text::kNoSignalLabel || is_signal_label(label) || labels.marks_chunk(label);
  };
  const Labels& names = labels.names();
  return std::ranges::find(names, text::kNoSignalLabel) != names.end() && std::ranges::all_of(names, is_known) &&
         std::ranges::any_of(names, is_signal_label);
}

// The use of a tagger: how it works and where its errors come from.
struct Use {
  std::string_view option;
  int64_t batch_tokens;
  OnSignal on_signal;
};

text::ClauseTagger clause_tagger(const nn::Checkpoint& checkpoint, const TrainedModelOptions& options, const Use& use) {
  const std::string model = options.model.empty() ? checkpoint.folder.string() : options.model;
  models::require_task(model, checkpoint.identity.task, {kTask}, use.option);
  const auto loaded = std::make_shared<const LoadedTagger>(load_tagger(checkpoint, options));
  const bool gives_labels = labels_signals(loaded->labels);
  if (!gives_labels && loaded->labels.has_chunks())
    throw Error(cat(use.option, ": '", model, "' labels names (", join(loaded->labels.names(), ", "),
                    "); expected a model of part-of-speech tags or of signal words (",
                    join(std::vector<std::string>(text::kSignalLabels.begin(), text::kSignalLabels.end()), ", "), ")"));
  if (loaded->clauses && loaded->config.clause_tag_column > 0)
    throw Error(cat(use.option, ": '", model, "' finds clauses by the tags of column ",
                    loaded->config.clause_tag_column,
                    ", which the input lacks; expected a model that reads words alone"));
  return {.tag = [loaded, use](std::span<const text::ClauseTagger::Sentence> sentences) -> std::vector<Labels> {
            TaggingParts parts = loaded->parts(use.batch_tokens);
            parts.on_signal = use.on_signal;
            return tag_sentences(parts, sentences);
          },
          .gives_labels = gives_labels};
}

}  // namespace

text::ClauseTagger load_clause_tagger(const std::string& model, const MachineOptions& machine,
                                      int64_t mini_batch_words) {
  TrainedModelOptions options;
  static_cast<MachineOptions&>(options) = machine;
  options.model = model;
  constexpr std::string_view kOption = "--tagger";
  return clause_tagger(nn::load_checkpoint(model, nn::Load::kModel, kOption), options,
                       {kOption, mini_batch_words, OnSignal::kThrow});
}

text::ClauseTagger clause_tagger_of(const nn::Checkpoint& model, std::string_view option) {
  return clause_tagger(model, {}, {option, TaggingParts::kBatchTokens, OnSignal::kFinish});
}

}  // namespace fovea::tagging
