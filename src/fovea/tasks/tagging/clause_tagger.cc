#include "fovea/tasks/tagging/clause_tagger.h"

#include <algorithm>
#include <memory>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/tasks/tagging/load_model.h"
#include "fovea/text/clause_dictionary.h"

namespace fovea::tagging {
namespace {

bool is_signal_label(const std::string& label) {
  return std::ranges::find(text::kSignalLabels, label) != text::kSignalLabels.end();
}

// Universal parts of speech have PUNCT and ADP too, but no O.
bool labels_signals(const LabelSet& labels) {
  const auto is_known = [](const std::string& label) {
    return label == text::kNoSignalLabel || is_signal_label(label) || metrics::parts_of_label(label).prefix != 'W';
  };
  const Labels& names = labels.names();
  return std::ranges::find(names, text::kNoSignalLabel) != names.end() && std::ranges::all_of(names, is_known) &&
         std::ranges::any_of(names, is_signal_label);
}

}  // namespace

text::ClauseTagger load_clause_tagger(const std::string& model, const MachineOptions& machine,
                                      int64_t mini_batch_words) {
  TrainedModelOptions options;
  static_cast<MachineOptions&>(options) = machine;
  options.model = model;
  const auto loaded = std::make_shared<const LoadedTagger>(load_tagger(options));
  const bool gives_labels = labels_signals(loaded->labels);
  if (!gives_labels && loaded->labels.has_chunks())
    throw Error(cat("--tagger: '", model, "' labels names (", join(loaded->labels.names(), ", "),
                    "); expected a model of part-of-speech tags or of signal words (",
                    join(std::vector<std::string>(text::kSignalLabels.begin(), text::kSignalLabels.end()), ", "), ")"));
  if (loaded->clauses && loaded->config.clause_tag_column > 0)
    throw Error(cat("--tagger: '", model, "' finds clauses by the tags of column ", loaded->config.clause_tag_column,
                    ", which the input lacks; expected a model that reads words alone"));
  return {.tag = [loaded, mini_batch_words](std::span<const text::ClauseTagger::Sentence> sentences)
              -> std::vector<Labels> { return tag_sentences(loaded->parts(mini_batch_words), sentences); },
          .gives_labels = gives_labels};
}

}  // namespace fovea::tagging
