#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/model_task.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/ops/prepacked_layer.h"
#include "fovea/spec/run_options.h"

namespace torch::nn {
class Module;
}

// The one way to open a checkpoint whose model is to be run. The reading and writing of the model's texts or images is
// in the files of its task.
namespace fovea::models {

class TrainedModel {
 public:
  // Sets the threads, tries the device, and reads options.model, the folder of a run or of a checkpoint. Throws an
  // Error that begins with `option`, the flag that named the folder, if the model is of none of `tasks`.
  TrainedModel(const TrainedModelOptions& options, const std::vector<std::string>& tasks,
               std::string_view option = "--model");
  // Like the constructor above, with a checkpoint that was read already in place of options.model.
  TrainedModel(nn::Checkpoint checkpoint, const TrainedModelOptions& options);

  const nn::Checkpoint& checkpoint() const { return checkpoint_; }
  const nn::Identity& identity() const { return checkpoint_.identity; }
  const std::string& task() const { return identity().task; }
  const at::Device& device() const { return device_; }
  std::string folder() const { return checkpoint_.folder.string(); }
  // A file of the checkpoint, as errors name it.
  std::string path(std::string_view file) const { return checkpoint_.folder / file; }

  // The model's configuration.
  template <class Config>
  Config config() const {
    return nn::config_of<Config>(identity(), path(nn::kConfigFile));
  }
  // The bytes of a file of the identity, such as a vocabulary. Throws an Error if the checkpoint does not have it.
  const std::string& file(const std::string& name) const;
  // Throws an Error unless --dim-vocabs, as the configuration has it, is `size` alone. `what` says what that is, such
  // as "the size of the vocabulary".
  void require_vocabulary(const std::vector<int64_t>& dim_vocabs, int64_t size, std::string_view what) const;

  // Gives the checkpoint's weights to a module that was made without a seed, puts the mechanisms of the options in
  // place of the trained ones, and returns the module in evaluation, on the device, in the precision. Throws an Error
  // that names the tensor if the weights do not fit.
  template <class Model>
  Model with_weights(Model model) const {
    take_weights(*model);
    const AttentionOverride& mechanisms = options_;
    if (mechanisms != AttentionOverride{}) model->override_attention(mechanisms);
    finish(*model);
    if constexpr (requires { model->use_int8(); }) {
      if (options_.precision == "int8") model->use_int8();
    }
    return model;
  }

 private:
  void take_weights(torch::nn::Module& module) const;
  void finish(torch::nn::Module& module) const;

  TrainedModelOptions options_;
  at::Device device_;
  nn::Checkpoint checkpoint_;
};

// The weights of the decoder's steps and of the output layer for --precision: 8-bit integers, or as they are. Full
// passes compute in 8-bit integers from with_weights() on.
inline ops::PrepackedLayer::Format step_format(const TrainedModelOptions& options) {
  using Format = ops::PrepackedLayer::Format;
  return options.precision == "int8" ? Format::kInt8 : Format::kExact;
}

}  // namespace fovea::models
