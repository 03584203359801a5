#include "fovea/models/tagging/loaded_tagger.h"

#include <utility>

#include "fovea/base/strings.h"
#include "fovea/models/source_clauses.h"

namespace fovea::tagging {

LoadedTagger load_tagger(const TrainedModelOptions& options) {
  return load_tagger(models::TrainedModel(options, {kTask}));
}

LoadedTagger load_tagger(const models::TrainedModel& trained) {
  const auto config = trained.config<TaggingConfig>();
  const metrics::LabelNotation notation = notation_of(config, cat(trained.path(nn::kConfigFile), ": "));
  auto vocab = text::EncoderVocab::from_files(trained.identity().files, trained.folder());
  trained.require_vocabulary(config.dim_vocabs, vocab.size(), "the size of the vocabulary");
  LabelSet labels = LabelSet::from_contents(trained.file(kLabelsFile), trained.path(kLabelsFile), notation.form);
  LoadedTagger loaded = {.model = trained.with_weights(Tagger(config, labels.size(), std::nullopt)),
                         .config = config,
                         .vocab = std::move(vocab),
                         .labels = std::move(labels),
                         .dialect = notation.dialect};
  if (uses_clauses(loaded.model->config())) loaded.clauses = models::clause_dictionary_of(trained.identity());
  return loaded;
}

}  // namespace fovea::tagging
