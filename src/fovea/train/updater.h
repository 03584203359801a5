#pragma once
#include <cstdint>
#include <string>

#include "fovea/base/collective.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/flat_parameters.h"
#include "fovea/train/optimizer.h"
#include "fovea/train/pass_records.h"
#include "fovea/train/task.h"

namespace fovea::train {

struct UpdateInput {
  int64_t epoch = 1;
  int64_t first = 0, passes = 1;  // the batches first ... first + passes - 1 of the epoch make the update
  int64_t update = 1;             // from 1
  int64_t dropout_seed = 0;       // pass i draws from (dropout_seed, i)
  double learn_rate = 0;
};

struct UpdateResult {
  double cost = 0;           // sum of the losses
  double weight = 0;         // what the sum is over, see BatchLoss
  double gradient_norm = 0;  // of the mean gradient per unit of weight, before clipping
  Notes notes;               // of the batches
  bool made = false;         // false: the cost or the gradient was not finite, and nothing was changed
};

// The weights of a training, their optimiser and their average, and one update of them.
//
// In a team of processes each has all of that, with the same values. Of an update, process r computes the passes r, r +
// size ...; the gradients are added in the order of the ranks, the rest in the order of the passes. With one pass for
// each process the update is that of one process, bit for bit.
class Updater {
 public:
  // `config`, `module` and `team` must outlive the updater.
  Updater(const TrainConfig& config, torch::nn::Module& module, const at::Device& device,
          const nn::ParameterRules& rules = {}, Collective& team = alone());

  // Gives the weights, moments and buffers of process 0 to the others of the team.
  void share_state();

  // task.module() is the updater's module. Does not call task.after_update().
  UpdateResult update(Task& task, const UpdateInput& input);

  // Fills model and optimizer. The model is the average if there is one, with the buffers as they are.
  void store(nn::Checkpoint& checkpoint) const;
  // Throws an Error that begins with `origin` if names or shapes differ.
  void restore(const nn::Checkpoint& checkpoint, const std::string& origin);
  // Restores weights alone, as at the beginning of a run. With kPart, tensors that `weights` lacks keep their values.
  enum class Coverage : uint8_t { kAll, kPart };
  void restore_weights(const nn::NamedTensors& weights, const std::string& origin, Coverage coverage);

  // False if an error ended update() while the weights changed: then they are not to be saved.
  bool is_whole() const { return is_whole_; }

  int64_t parameter_count() const { return parameters_.count(); }

 private:
  friend class AverageInUse;
  bool averages() const { return average_.defined(); }
  std::vector<PassRecord> run_passes(Task& task, const UpdateInput& input);
  void share(at::Tensor tensor);
  // Clips the gradient by --clip-norm-tensor and --clip-norm. `norm` is of the mean gradient, which is the sum of all
  // passes times `per_unit`.
  OptimizerStep clipped_step(double norm, double per_unit) const;
  void move_average(int64_t update);
  // Exchanges the memory of the float32 weights and the average; the model's parameters follow. Allocates nothing,
  // because it happens in a destructor.
  void exchange_average();

  const TrainConfig& config_;
  torch::nn::Module& module_;
  FlatParameters parameters_;
  Optimizer optimizer_;
  Collective& team_;
  at::Tensor average_;  // undefined without --exponential-smoothing
  bool is_whole_ = true;
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
