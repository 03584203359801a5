#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/spec/config_problems.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/task.h"

// A task that lives outside of tasks/ and uses the public interface alone: a model learns to copy symbols. It has all
// that a task can have: a buffer, a parameter with a rule, state that is carried from update to update, values for the
// log, and validation.
namespace own {

struct CopyOptions {
  int64_t batches = 10, length = 24;
  bool with_validation = false;
  int64_t die_at = 0;  // the process kills itself in this call of loss(), from 1

  static constexpr auto fields() {
    using C = CopyOptions;
    return std::tuple(fovea::number("batches", &C::batches, "batches in an epoch", 1, 1000),
                      fovea::number("length", &C::length, "symbols in a batch", 1, 1000),
                      fovea::field("with-validation", &C::with_validation, "validate on symbols of another seed"),
                      fovea::number("die-at", &C::die_at, "batch that kills the process (0: none)", 0));
  }
  std::vector<std::vector<std::string>> inputs() const { return {}; }
};
void add_problems(const CopyOptions& options, fovea::Problems& problems);

struct CopyModel {
  int64_t symbols = 11;

  static constexpr auto fields() {
    return std::tuple(fovea::number("symbols", &CopyModel::symbols, "size of the alphabet", 2, 1000));
  }
};
void validate(const CopyModel& model);

class CopyTask final : public fovea::train::Task {
 public:
  using Options = CopyOptions;
  using Model = CopyModel;
  static constexpr double kLeastShare = 0.99;
  static std::span<const fovea::train::Measure> known_measures();

  CopyTask(const fovea::TrainConfig& config, const CopyOptions& options, const CopyModel& model,
           int64_t batches_an_update);

  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  fovea::train::BatchLoss loss(int64_t batch, const fovea::nn::ForwardContext& context) override;
  void after_update(bool made) override;
  fovea::nn::NamedTensors carried() const override { return {{"echo", echo_}}; }
  void restore(const fovea::nn::NamedTensors& carried, const std::string& origin) override;
  std::vector<double> validate(const std::vector<std::string>& names) override;

 private:
  at::Tensor symbols(uint64_t seed) const;             // [length] int64
  at::Tensor hidden(const at::Tensor& symbols) const;  // [length, symbols]

  CopyOptions options_;
  int64_t seed_, symbols_, epoch_ = 0, calls_ = 0;
  at::Tensor weight_, bias_;   // parameters [symbols, symbols], [symbols]
  at::Tensor share_;           // parameter [], float32 at any precision: how much of the echo is heard
  at::Tensor updates_;         // buffer []: how many updates were made
  at::Tensor echo_, pending_;  // carried [symbols]: a part of earlier inputs, which the next ones are read with
};

}  // namespace own
