#include "fovea/decode/load_decoder.h"

#include <optional>
#include <string>

#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::decode {
namespace {

// The tensors that each of the configuration's sizes rules.
void check_sizes(const nn::Checkpoint& checkpoint, const DecoderConfig& config) {
  const std::string weights = checkpoint.folder / nn::kModelFile;
  const auto require = [&](const std::string& name, std::initializer_list<int64_t> shape) {
    nn::tensor_of(checkpoint.model, name, shape, weights);
  };
  require("embeddings.weight", {config.dim_vocabs.at(0), config.dim_emb});
  require(cat("layers.", config.dec_depth - 1, ".feed_forward.out.weight"),
          {config.dim_emb, config.transformer_dim_ffn});
  if (has_learned_positions(config)) require("positions.weight", {config.max_positions, config.dim_emb});
  if (find_scheme<ImagePositions>(parse_positions(config.transformer_positions))) {
    require("positions.rows", {config.image_shape.at(0), config.dim_emb});
    require("positions.columns", {config.image_shape.at(1), config.dim_emb});
  }
}

}  // namespace

nn::DecoderOnly load_decoder(const nn::Checkpoint& checkpoint, const DecoderConfig& config,
                             const TrainedModelOptions& options) {
  nn::set_cpu_threads(options.cpu_threads);
  const at::Device device = nn::parse_device(options.devices);
  check_sizes(checkpoint, config);
  nn::DecoderOnly model(config, std::nullopt);
  nn::load_parameters(*model, checkpoint.model, checkpoint.folder / nn::kModelFile);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) model->override_attention(mechanisms);
  nn::move_module(*model, device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  model->eval();
  return model;
}

}  // namespace fovea::decode
