#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/spec/run_options.h"

namespace fovea {

enum class ValidMeasure : uint8_t { kCrossEntropy, kPerplexity, kBleu, kChrf };

// What validation can measure. Names, help and order follow from the list; how each is computed stands in
// train/validation.cc, which does not compile while a measure lacks that.
struct ValidMetric {
  std::string_view name;
  ValidMeasure measure;
  bool is_loss;  // of the references, lower is better; the others are of translations, higher is better
  int digits;    // shown
};
inline constexpr std::array kValidMetrics = {ValidMetric{"ce-mean-words", ValidMeasure::kCrossEntropy, true, 4},
                                             ValidMetric{"perplexity", ValidMeasure::kPerplexity, true, 4},
                                             ValidMetric{"bleu", ValidMeasure::kBleu, false, 2},
                                             ValidMetric{"chrf", ValidMeasure::kChrf, false, 2}};
const ValidMetric& valid_metric(std::string_view name);  // throws a UsageError that lists the names
std::string_view valid_metrics_help();

// One training run; what fixes the model is in ModelConfig. Marian's names where it has them.
struct TrainConfig : MachineOptions, LogOptions {
  std::string model;
  std::vector<std::string> train_sets, vocabs, valid_sets;
  int64_t after_batches = 0, after_epochs = 0;
  int64_t mini_batch_words = 4096, mini_batch = 0, maxi_batch = 200, optimizer_delay = 1;
  int64_t max_length = 100;
  bool max_length_crop = false;
  std::string optimizer = "adam";
  std::vector<double> optimizer_params = {0.9, 0.98, 1e-9};
  double learn_rate = 0.0003;
  std::string lr_decay = "inv-sqrt";
  int64_t lr_warmup = 4000;
  double label_smoothing = 0.1, clip_norm = 1.0;
  std::string precision = "float32";
  int64_t disp_freq = 100, valid_freq = 1000, save_freq = 1000, keep_last = 5;
  std::vector<std::string> valid_metrics = {"ce-mean-words", "bleu"};
  int64_t early_stopping = 10, valid_beam_size = 1, valid_mini_batch_words = 4096;
  double valid_max_length_factor = 2.0;
  double exponential_smoothing = 0;
  double stop_after_seconds = 0;
  int64_t seed = 1;
  bool no_reload = false, overwrite = false;
  std::string pretrained_model;

  static auto fields() {
    using C = TrainConfig;
    const auto own = std::tuple(
        named("model", &C::model, "folder of the run: its checkpoints, and links to the best and the last", "m"),
        named("train-sets", &C::train_sets, "source and target text, one sentence a line, may be packed", "t"),
        named("vocabs", &C::vocabs, "SentencePiece models of source and target", "v"),
        field("valid-sets", &C::valid_sets, "source and target text for validation"),
        number("after-batches", &C::after_batches, "stop after so many updates (0: no limit)", 0, 1e15),
        named(
            number("after-epochs", &C::after_epochs, "stop after so many passes over the data (0: no limit)", 0, 1e15),
            "e"),
        named(number("mini-batch-words", &C::mini_batch_words,
                     "target tokens in a batch, at most; of the source, four times as many", 1, 1e9),
              "max-tokens"),
        number("mini-batch", &C::mini_batch, "sentences in a batch, at most (0: no limit)", 0, 1e9),
        number("maxi-batch", &C::maxi_batch, "batches' worth of sentences sorted by length together", 1, 1e6),
        named(number("optimizer-delay", &C::optimizer_delay, "batches whose gradients make one update", 1, 1e6),
              "update-freq"),
        number("max-length", &C::max_length, "longer training sentences, in tokens, are left out", 1, 1e6),
        field("max-length-crop", &C::max_length_crop, "cut them instead"),
        choice("optimizer", &C::optimizer, "the optimiser", "adam"),
        field("optimizer-params", &C::optimizer_params, "beta1 beta2 eps"),
        named(number("learn-rate", &C::learn_rate, "highest learning rate", 0, 1e3), "lr"),
        choice("lr-decay", &C::lr_decay,
               "schedule after the warm-up; cosine and linear fall to 0 at the end of training",
               "inv-sqrt|cosine|linear|none"),
        number("lr-warmup", &C::lr_warmup, "updates of linear warm-up", 0, 1e12),
        number("label-smoothing", &C::label_smoothing, "share of the target's mass spread over the vocabulary", 0,
               0.99),
        number("clip-norm", &C::clip_norm, "the gradient's norm is cut to this (0: never)", 0),
        choice("precision", &C::precision, "of matrix products and activations; weights stay float32 in the optimiser",
               "float32|bfloat16"),
        number("disp-freq", &C::disp_freq, "updates between two log lines", 1, 1e12),
        number("valid-freq", &C::valid_freq, "updates between two validations", 1, 1e12),
        number("save-freq", &C::save_freq, "updates between two checkpoints", 1, 1e12),
        number("keep-last", &C::keep_last, "the last checkpoints, kept for averaging; beside them the best stays", 1,
               1e6),
        field("valid-metrics", &C::valid_metrics, valid_metrics_help()),
        number("early-stopping", &C::early_stopping, "validations without a better value before the end (0: never)", 0,
               1e6),
        number("valid-beam-size", &C::valid_beam_size, "beam of the translations in validation", 1, 1000),
        number("valid-mini-batch-words", &C::valid_mini_batch_words, "tokens in a validation batch", 1, 1e9),
        number("valid-max-length-factor", &C::valid_max_length_factor, "as --max-length-factor of translate", 0.1, 100),
        number("exponential-smoothing", &C::exponential_smoothing,
               "rate of an exponential moving average of the weights, saved as the model (0: none)", 0, 0.999999),
        number("stop-after-seconds", &C::stop_after_seconds, "stop after so many seconds of training (0: no limit)", 0),
        number("seed", &C::seed, "of weights, order and dropout", 0, 9e15),
        field("no-reload", &C::no_reload, "start anew beside an existing run's files instead of continuing it"),
        field("overwrite", &C::overwrite, "delete an existing run in the folder first"),
        field("pretrained-model", &C::pretrained_model, "start from these weights"));
    return std::tuple_cat(own, MachineOptions::fields(), LogOptions::fields());
  }
};

// Throws a UsageError that names every problem found, in one line.
void validate(const TrainConfig& config);

}  // namespace fovea
