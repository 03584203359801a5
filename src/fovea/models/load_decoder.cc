#include "fovea/models/load_decoder.h"

#include <optional>
#include <string>

#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::models {
nn::DecoderOnly load_decoder(const nn::Checkpoint& checkpoint, const DecoderConfig& config,
                             const TrainedModelOptions& options) {
  nn::set_cpu_threads(options.cpu_threads);
  const at::Device device = nn::parse_device(options.devices);
  nn::DecoderOnly model(config, std::nullopt);
  nn::load_parameters(*model, checkpoint.model, checkpoint.folder / nn::kModelFile);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) model->override_attention(mechanisms);
  nn::move_module(*model, device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  model->eval();
  return model;
}

}  // namespace fovea::models
