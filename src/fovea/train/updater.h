#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "fovea/data/corpus.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/transformer.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/flat_parameters.h"

namespace fovea::train {

struct UpdateInput {
  const data::ParallelCorpus& corpus;
  std::span<const data::Batch> batches;  // whose gradients make the update
  int64_t target_eos = 0;
  int64_t update = 1;        // from 1
  int64_t dropout_seed = 0;  // pass i draws from (dropout_seed, i)
  double learn_rate = 0;
};

struct UpdateResult {
  double cost = 0;  // sum of the label-smoothed losses
  int64_t target_tokens = 0;
  double gradient_norm = 0;  // of the mean over target tokens, before clipping
  bool made = false;         // false: cost or gradient was not finite, nothing was changed
};

// The weights of a training, their moments and their average, and one update of them.
class Updater {
 public:
  Updater(const TrainConfig& config, const nn::Transformer& model, const at::Device& device);

  UpdateResult update(const UpdateInput& input);

  // Fills model and optimizer; the model is the average where there is one.
  void store(nn::Checkpoint& checkpoint) const;
  void restore(const nn::Checkpoint& checkpoint, const std::string& source);
  // From weights alone, as at the beginning.
  void restore_weights(const nn::NamedTensors& weights, const std::string& source);

  int64_t parameter_count() const { return parameters_.count(); }

 private:
  friend class AverageInUse;
  bool averages() const { return average_.defined(); }
  void adam(const UpdateInput& input, double gradient_scale);
  // Of the float32 weights' memory; the model's parameters follow. Allocates nothing, as it happens in a destructor.
  void exchange_average();

  const TrainConfig& config_;
  nn::Transformer model_;
  at::Device device_;
  FlatParameters parameters_;
  at::Tensor mean_, variance_;
  at::Tensor average_;  // undefined without --exponential-smoothing
};

// While it lives, the model computes with the averaged weights, if the run keeps any.
class AverageInUse {
 public:
  explicit AverageInUse(Updater& updater) : updater_(updater) { updater_.exchange_average(); }
  ~AverageInUse() { updater_.exchange_average(); }
  AverageInUse(const AverageInUse&) = delete;
  AverageInUse& operator=(const AverageInUse&) = delete;

 private:
  Updater& updater_;
};

}  // namespace fovea::train
