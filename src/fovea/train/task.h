#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/parameter_rules.h"
#include "fovea/train/measure.h"

namespace torch::nn {
class Module;
}

namespace fovea::train {

struct BatchLoss {
  // [] float32 with a graph: a sum, not a mean. The updater divides the gradients once, by the sum of the weights of
  // all batches of the update. A term that is a mean is added as weight * term.
  at::Tensor loss;
  double weight = 0;  // what the sum is over, such as tokens or pixels; above 0
  // Values for the log alone, by name. The log shows their means since the line before, weighted with `weight`.
  std::vector<std::pair<std::string_view, double>> notes = {};
};

// The parts of a task that stay the same for a whole run.
struct TaskParts {
  // Parameters and buffers by stable names, float32. The updater lays the parameters into one buffer with set_data, so
  // the module must keep its tensors and no views of them. Buffers stay float32 at any --precision.
  std::shared_ptr<torch::nn::Module> module;
  // Limits of parameters, and parameters that stay float32 at any --precision. A name that is not a parameter's is an
  // Error.
  nn::ParameterRules rules = {};
  nn::Identity identity = {};
  // A checksum of the training data and of everything that orders it. If it differs on resuming, the epoch starts
  // again, with a warning.
  std::string fingerprint = {};
  // A checksum of validation's data and options: best values of others do not compare. Empty without validation.
  std::string valid_fingerprint = {};
  std::span<const Measure> measures = {};
  std::vector<std::string> default_measures = {};  // of --valid-metrics, some of the names; the first decides
  std::string weight_unit = "words";               // what BatchLoss::weight counts, for the log: "1,000 words/s"
  bool is_loss_per_byte = false;                   // the log shows the cost in bits per byte too
};

// The subject of a training: its data, its model, its loss and its validation. One run uses one task, in one thread. A
// place in the data is (epoch from 1, batch from 0) and nothing else. A task sets its parts in the constructor. The
// methods throw an Error for a user's mistake, and the constructor, begin_epoch and validate throw Interrupted when a
// signal has come.
class Task {
 public:
  virtual ~Task() = default;

  const TaskParts& parts() const { return parts_; }
  torch::nn::Module& module() const { return *parts_.module; }

  // The weights to start from. Tensors that are left out keep their own start. By default all of them, and an Error
  // that names --pretrained-model if the files of the identities differ.
  virtual nn::NamedTensors weights_of(const nn::Checkpoint& pretrained) const;

  // Lays out an epoch, a function of (options, epoch) alone, with carried state as at its beginning. Returns the number
  // of items (the log's "Sen.") of each batch; there is at least one batch.
  virtual std::vector<int64_t> begin_epoch(int64_t epoch) = 0;

  // The forward pass of one batch: a function of (weights, buffers, carried state, batch, context). Every tensor in the
  // graph owns its memory, because backward runs after the return. The batches of one update may be asked for in any
  // order, so none may read what another batch of the same update leaves. Models add their own terms of the loss to
  // context.extras, which the updater adds as weight * term; the cost in the log is without them.
  virtual BatchLoss loss(int64_t batch, const nn::ForwardContext& context) = 0;

  // Called once for each update, after the weights have changed. `made` is false if the loss or its gradient was not
  // finite: then nothing was changed, and carried state must start again, or a NaN would live on in it.
  virtual void after_update(bool made);

  // The state, by name, that exact resume needs besides weights, buffers and moments. It is restored after begin_epoch
  // of the same epoch, and only if the fingerprint is the same. By default there is none.
  virtual nn::NamedTensors carried() const;
  // Throws an Error that begins with `origin` if names or shapes do not fit.
  virtual void restore(const nn::NamedTensors& carried, const std::string& origin);

  // The values of the measures `names`, in their order, in evaluation on the weights as they are. Touches no carried
  // state.
  virtual std::vector<double> validate(const std::vector<std::string>& names) = 0;
  // Whether validate() is to be called in every process of a team at once. Each then computes a share of it, by
  // shared_work(team(), ...), and the values are those of one process to the bit. By default process 0 validates alone.
  virtual bool shares_validation() const;

  // The processes of the run; this one alone unless a team was set.
  Collective& team() const { return *team_; }
  void set_team(Collective& team) { team_ = &team; }

 protected:
  TaskParts parts_;

 private:
  Collective* team_ = &alone();
};

}  // namespace fovea::train
