#include "fovea/tasks/tagging/load_model.h"

#include <ATen/Parallel.h>

#include <string>
#include <utility>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/decode/open_checkpoint.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::tagging {
namespace {

LabelSet load_labels(const nn::Checkpoint& checkpoint) {
  const auto found = checkpoint.identity.files.find(kLabelsFile);
  const std::string origin = checkpoint.folder / kLabelsFile;
  if (found == checkpoint.identity.files.end()) throw Error(cat(origin, ": damaged: the file is missing"));
  return LabelSet::from_contents(found->second, origin);
}

// Before a model of the configuration's sizes takes memory.
void check_tagger_sizes(const nn::Checkpoint& checkpoint, const TaggingConfig& config, const LoadedTagger& parts) {
  const std::string weights = checkpoint.folder / nn::kModelFile;
  if (config.dim_vocabs != std::vector<int64_t>{parts.vocab.size()})
    throw Error(cat((checkpoint.folder / nn::kConfigFile).string(), ": dim-vocabs: expected [", parts.vocab.size(),
                    "], the size of the vocabulary"));
  const auto require = [&](const std::string& name, std::initializer_list<int64_t> shape) {
    nn::tensor_of(checkpoint.model, name, shape, weights);
  };
  require("encoder.embeddings.weight", {config.dim_vocabs.front(), config.dim_emb});
  require(cat("encoder.layers.", config.enc_depth - 1, ".feed_forward.out.weight"),
          {config.dim_emb, config.transformer_dim_ffn});
  if (has_learned_positions(config)) require("encoder.positions.weight", {config.max_positions, config.dim_emb});
  if (config.token_types > 0) require("encoder.token_types.weight", {config.token_types, config.dim_emb});
  require("output.weight", {parts.labels.size(), config.dim_emb});
}

}  // namespace

LoadedTagger load_tagger(const TrainedModelOptions& options) {
  const nn::Checkpoint checkpoint = decode::open_checkpoint(options.model, {kTask});
  const std::string origin = checkpoint.folder / nn::kConfigFile;
  const auto config = nn::config_of<TaggingConfig>(checkpoint.identity, origin);
  LoadedTagger loaded = {.model = nullptr,
                         .config = config,
                         .vocab = text::EncoderVocab::from_files(checkpoint.identity.files, checkpoint.folder.string()),
                         .labels = load_labels(checkpoint),
                         .dialect = parse_choice<metrics::LabelDialect>(
                             metrics::kLabelDialectNames, config.label_dialect, cat(origin, ": label-dialect: got"))};
  check_tagger_sizes(checkpoint, config, loaded);
  if (options.cpu_threads > 0) at::set_num_threads(static_cast<int>(options.cpu_threads));
  const at::Device device = nn::parse_device(options.devices);
  loaded.model = Tagger(config, loaded.labels.size(), std::nullopt);
  nn::load_parameters(*loaded.model, checkpoint.model, checkpoint.folder / nn::kModelFile);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) loaded.model->encoder->override_attention(mechanisms);
  nn::move_module(*loaded.model, device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  loaded.model->eval();
  return loaded;
}

}  // namespace fovea::tagging
