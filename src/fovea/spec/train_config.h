#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/choices.h"
#include "fovea/spec/run_options.h"

namespace fovea {

// The list of optimisers. train/optimizer.h implements them in the same order.
inline constexpr std::string_view kOptimizers = "adam|adagrad|adafactor";

// The optimisers that use this option of training, separated by '|'. Empty if every optimiser does.
constexpr std::string_view optimizers_with(std::string_view option) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOptions = {
      {{"optimizer-params", "adam"},
       {"weight-decay", "adam|adafactor"},
       {"adagrad-eps", "adagrad"},
       {"adagrad-initial", "adagrad"},
       {"adafactor-relative-step", "adafactor"},
       {"adafactor-clip", "adafactor"},
       {"adafactor-decay", "adafactor"}}};
  for (const auto& [name, users] : kOptions) {
    if (name == option) return users;
  }
  return {};
}

// --learn-rate -1, which usual_learn_rate() replaces before a training begins.
inline constexpr double kRateByWidth = -1;

// The usual highest rate for a model of this width: 0.045 / sqrt(width), to six decimals. Rates fall with the root of
// the width as in Vaswani et al. (2017).
double usual_learn_rate(int64_t width);

// One training run of any task. The options that fix the model and name the data are the task's own. Names are Marian's
// if Marian has the option.
struct TrainConfig : MachineOptions, LogOptions {
  std::string task = "translation";
  std::string model;
  int64_t after_batches = 0, after_epochs = 0;
  int64_t optimizer_delay = 1;
  std::string optimizer = "adam";
  std::vector<double> optimizer_params = {0.9, 0.98, 1e-9};
  double weight_decay = 0;
  double adagrad_eps = 1e-10, adagrad_initial = 0;
  bool adafactor_relative_step = false;
  double adafactor_clip = 1, adafactor_decay = 0.8;
  double learn_rate = kRateByWidth;
  std::string lr_decay = "inv-sqrt";
  // Pre-norm layers need no long warm-up, so a short training has learned before it ends. The warm-up does not depend
  // on the length of the training: a run that is resumed with more updates equals one that had them from the beginning.
  int64_t lr_warmup = 100;
  double clip_norm = 1.0, clip_norm_tensor = 0;
  std::string precision = "float32";
  bool gradient_checkpointing = false;
  int64_t disp_freq = 100, valid_freq = 1000, save_freq = 1000, keep_last = 5;
  std::vector<std::string> valid_metrics;  // empty: the task's own
  int64_t early_stopping = 10;
  int64_t max_rollbacks = 3;
  double exponential_smoothing = 0;
  double stop_after_seconds = 0;
  int64_t seed = 1;
  bool no_reload = false, overwrite = false;
  bool tensorboard = false;
  std::string pretrained_model;

  static auto fields() {
    using C = TrainConfig;
    const auto own = std::tuple(
        field("task", &C::task, "what to train; each task has options of its own, listed below"),
        named("model", &C::model, "folder of the run: its checkpoints, and links to the best and the last", "m"),
        number("after-batches", &C::after_batches, "stop after N updates (0: no limit)", 0, 1e15),
        named(number("after-epochs", &C::after_epochs, "stop after N passes over the data (0: no limit)", 0, 1e15),
              "e"),
        named(number("optimizer-delay", &C::optimizer_delay, "batches whose gradients make one update", 1, 1e6),
              "update-freq"),
        choice("optimizer", &C::optimizer,
               "optimiser; an option whose help begins with an optimiser's name needs that optimiser", kOptimizers),
        field("optimizer-params", &C::optimizer_params, "adam: beta1 beta2 eps"),
        number("weight-decay", &C::weight_decay,
               "adam and adafactor: each update multiplies all weights by 1 - learning rate * X first, biases and "
               "norms too",
               0, 1e3),
        number("adagrad-eps", &C::adagrad_eps, "adagrad: added to the root of the summed squared gradients", 1e-37,
               1e6),
        number("adagrad-initial", &C::adagrad_initial, "adagrad: what the sums of squared gradients start with", 0,
               1e30),
        field("adafactor-relative-step", &C::adafactor_relative_step,
              "adafactor: multiply the learning rate by the root mean square of each parameter's weights, at least "
              "0.001"),
        number("adafactor-clip", &C::adafactor_clip,
               "adafactor: largest root mean square of a parameter's update before the learning rate multiplies it "
               "(0: no limit)",
               0, 1e6),
        number("adafactor-decay", &C::adafactor_decay,
               "adafactor: update t keeps 1 - t^-X of the mean squared gradients of earlier updates", 0, 1),
        named(number("learn-rate", &C::learn_rate, "highest learning rate (-1: 0.045 divided by the root of --dim-emb)",
                     kRateByWidth, 1e3),
              "lr"),
        choice("lr-decay", &C::lr_decay,
               "schedule after the warm-up; cosine and linear fall to 0 at the end of training",
               "inv-sqrt|cosine|linear|none"),
        number("lr-warmup", &C::lr_warmup, "updates of linear warm-up", 0, 1e12),
        number("clip-norm", &C::clip_norm, "largest norm of the gradient, which is scaled down to it (0: no limit)", 0),
        number("clip-norm-tensor", &C::clip_norm_tensor,
               "the same for the gradient of each parameter by itself, before --clip-norm; in adagrad it scales the "
               "step, and the sums take the unscaled gradient (0: no limit)",
               0),
        choice("precision", &C::precision,
               "type of matrix products and activations; weights stay float32 in the optimiser", "float32|bfloat16"),
        field("gradient-checkpointing", &C::gradient_checkpointing,
              "keep only the layers' inputs for the backward pass and compute the rest again: less memory, same "
              "gradients"),
        number("disp-freq", &C::disp_freq, "updates between two log lines", 1, 1e12),
        number("valid-freq", &C::valid_freq, "updates between two validations", 1, 1e12),
        number("save-freq", &C::save_freq, "updates between two checkpoints", 1, 1e12),
        number("keep-last", &C::keep_last, "checkpoints to keep for averaging, besides the best", 1, 1e6),
        field("valid-metrics", &C::valid_metrics,
              "measures of validation, see the task's options; the first decides (default: the task's)"),
        number("early-stopping", &C::early_stopping, "validations without a better value before the end (0: never)", 0,
               1e6),
        number("max-rollbacks", &C::max_rollbacks,
               "returns to an earlier checkpoint with half of the learning rate when the cost diverges; 0 ends the "
               "training instead",
               0, 1000),
        number("exponential-smoothing", &C::exponential_smoothing,
               "rate of an exponential moving average of the weights, saved as the model (0: none)", 0, 0.999999),
        number("stop-after-seconds", &C::stop_after_seconds, "stop after X seconds of training (0: no limit)", 0),
        number("seed", &C::seed, "random seed for the initial weights, the data order and dropout", 0, 9e15),
        field("no-reload", &C::no_reload, "start a new run in the folder and keep the files of the earlier one"),
        field("overwrite", &C::overwrite, "delete an existing run in the folder first"),
        field("pretrained-model", &C::pretrained_model, "start from these weights"),
        field("tensorboard", &C::tensorboard, "write event files for TensorBoard into the folder of the run too"));
    return std::tuple_cat(own, MachineOptions::fields(), LogOptions::fields());
  }
};

class Problems;
void add_problems(const TrainConfig& config, Problems& problems);
// Throws a UsageError that names every problem found, in one line.
void validate(const TrainConfig& config);

}  // namespace fovea
