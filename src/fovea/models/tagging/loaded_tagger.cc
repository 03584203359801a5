#include "fovea/models/tagging/loaded_tagger.h"

#include <string>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/open_checkpoint.h"
#include "fovea/models/source_clauses.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::tagging {
namespace {

LabelSet load_labels(const nn::Checkpoint& checkpoint, const metrics::LabelForm& form) {
  const auto found = checkpoint.identity.files.find(kLabelsFile);
  const std::string origin = checkpoint.folder / kLabelsFile;
  if (found == checkpoint.identity.files.end()) throw Error(cat(origin, ": damaged: the file is missing"));
  return LabelSet::from_contents(found->second, origin, form);
}

void check_vocabulary(const nn::Checkpoint& checkpoint, const TaggingConfig& config, const LoadedTagger& parts) {
  if (config.dim_vocabs != std::vector<int64_t>{parts.vocab.size()})
    throw Error(cat((checkpoint.folder / nn::kConfigFile).string(), ": dim-vocabs: expected [", parts.vocab.size(),
                    "], the size of the vocabulary"));
}

}  // namespace

LoadedTagger load_tagger(const TrainedModelOptions& options) {
  return load_tagger(models::open_checkpoint(options.model, {kTask}), options);
}

LoadedTagger load_tagger(const nn::Checkpoint& checkpoint, const TrainedModelOptions& options) {
  const std::string origin = checkpoint.folder / nn::kConfigFile;
  const auto config = nn::config_of<TaggingConfig>(checkpoint.identity, origin);
  const metrics::LabelNotation notation = notation_of(config, cat(origin, ": "));
  LoadedTagger loaded = {.model = nullptr,
                         .config = config,
                         .vocab = text::EncoderVocab::from_files(checkpoint.identity.files, checkpoint.folder.string()),
                         .labels = load_labels(checkpoint, notation.form),
                         .dialect = notation.dialect};
  check_vocabulary(checkpoint, config, loaded);
  nn::set_cpu_threads(options.cpu_threads);
  const at::Device device = nn::parse_device(options.devices);
  loaded.model = Tagger(config, loaded.labels.size(), std::nullopt);
  nn::load_parameters(*loaded.model, checkpoint.model, checkpoint.folder / nn::kModelFile);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) loaded.model->encoder->override_attention(mechanisms);
  if (uses_clauses(loaded.model->encoder->config())) loaded.clauses = models::clause_dictionary_of(checkpoint.identity);
  nn::move_module(*loaded.model, device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  loaded.model->eval();
  return loaded;
}

int64_t clause_tag_column(const LoadedTagger& loaded, int64_t given) {
  if (given == -1) return loaded.clauses ? loaded.config.clause_tag_column : 0;
  if (!loaded.clauses) throw UsageError("--clause-tag-column: the model has no clauses; leave the option out");
  if (given == 1)
    throw UsageError("--clause-tag-column: expected -1, 0 or a number from 2; the first column is the word");
  return given;
}

}  // namespace fovea::tagging
