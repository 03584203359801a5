#include "fovea/tasks/language/load_model.h"

#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include <optional>
#include <string>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/decode/open_checkpoint.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::language {
namespace {

text::Units load_units(const nn::Checkpoint& checkpoint) {
  const std::string folder = checkpoint.folder.string();
  if (checkpoint.identity.files.size() != 1)
    throw Error(cat(folder, ": damaged: got ", checkpoint.identity.files.size(),
                    " files of units; expected one, units.txt or units.spm"));
  const auto& [name, contents] = *checkpoint.identity.files.begin();
  return text::Units::from_file(name, contents);
}

// Before a model of the configuration's sizes takes memory: whether the tensors that each of them rules agree.
void check_sizes(const nn::Checkpoint& checkpoint, const LanguageConfig& config, const text::Units& units) {
  const std::string weights = checkpoint.folder / nn::kModelFile;
  if (config.dim_vocabs.size() != 1 || config.dim_vocabs.front() != units.size())
    throw Error(cat((checkpoint.folder / nn::kConfigFile).string(), ": dim-vocabs: expected [", units.size(),
                    "], the size of ", units.file_name()));
  nn::tensor_of(checkpoint.model, "embeddings.weight", {units.size(), config.dim_emb}, weights);
  nn::tensor_of(checkpoint.model, cat("layers.", config.dec_depth - 1, ".feed_forward.out.weight"),
                {config.dim_emb, config.transformer_dim_ffn}, weights);
  if (has_learned_positions(config))
    nn::tensor_of(checkpoint.model, "positions.weight", {config.max_positions, config.dim_emb}, weights);
}

}  // namespace

LoadedModel load_model(const TrainedModelOptions& options) {
  if (options.cpu_threads > 0) at::set_num_threads(static_cast<int>(options.cpu_threads));
  const at::Device device = nn::parse_device(options.devices);
  const nn::Checkpoint checkpoint = decode::open_checkpoint(options.model, {kTask});
  const LanguageConfig config = nn::config_of<LanguageConfig>(checkpoint.identity, checkpoint.folder / nn::kConfigFile);
  text::Units units = load_units(checkpoint);
  check_sizes(checkpoint, config, units);
  nn::DecoderOnly model(config, std::nullopt);
  nn::load_parameters(*model, checkpoint.model, checkpoint.folder / nn::kModelFile);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) model->override_attention(mechanisms);
  nn::move_module(*model, device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  model->eval();
  return {model, config, std::move(units)};
}

}  // namespace fovea::language
