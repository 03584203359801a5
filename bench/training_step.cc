// Milliseconds of one update of the Multi30k tiny model on made-up batches, and of its parts: what a training step
// costs without text, files and logs. Usage: training_step [float32|bfloat16] [target tokens] [updates]
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "arguments.h"
#include "fovea/base/file.h"
#include "fovea/base/malloc.h"
#include "fovea/base/rng.h"
#include "fovea/nn/model.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/step.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/translation/options.h"
#include "fovea/train/flat_parameters.h"
#include "made_tokens.h"

namespace fovea {
namespace {

constexpr int64_t kVocabulary = 10000;

struct Side {
  at::Tensor tokens, offsets;
};

// Sentences of 6 to 22 tokens, 14 on average, as Multi30k's.
struct Batch {
  Side source, inputs;
  at::Tensor outputs;
};

Side side_of(const std::vector<int64_t>& lengths, Rng& rng) {
  Side side{{}, at::zeros({static_cast<int64_t>(lengths.size()) + 1}, at::kLong)};
  auto* offsets = side.offsets.mutable_data_ptr<int64_t>();
  for (size_t b = 0; b < lengths.size(); ++b) offsets[b + 1] = offsets[b] + lengths[b];
  side.tokens = bench::made_tokens(offsets[lengths.size()], kVocabulary, rng);
  return side;
}

Batch make_batch(int64_t target_tokens, uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> lengths;
  for (int64_t total = 0; total < target_tokens; total += lengths.back()) {
    lengths.push_back(std::min<int64_t>(6 + static_cast<int64_t>(rng.below(17)), target_tokens - total));
  }
  Batch batch{side_of(lengths, rng), side_of(lengths, rng), {}};
  batch.outputs = side_of(lengths, rng).tokens;
  return batch;
}

// The model that the recipe trains, with a vocabulary of this size.
EncoderDecoderConfig recipe_model() {
  EncoderDecoderConfig model;
  TrainConfig training;  // the file's other keys
  translation::Options data;
  std::vector<FieldView> fields = field_views(model);
  for (const auto& others : {field_views(training), field_views(data)})
    fields.insert(fields.end(), others.begin(), others.end());
  from_yaml(read_file(FOVEA_RECIPE), FOVEA_RECIPE, std::span<const FieldView>(fields));
  model.dim_vocabs = {kVocabulary, kVocabulary};
  return model;
}

// Weights, gradients and moments as a training holds them.
class Optimiser {
 public:
  Optimiser(torch::nn::Module& module, at::ScalarType type)
      : parameters_(module, at::kCPU, type), mean_(parameters_.zeros()), variance_(parameters_.zeros()) {}
  void clear() { parameters_.clear_gradients(); }
  void step(int64_t update, int64_t tokens) {
    const torch::NoGradGuard no_grad;
    parameters_.add_gradients();
    ops::adam_step(
        {.params = parameters_.weights(), .mean = mean_, .variance = variance_, .copy = parameters_.compute_copy()},
        parameters_.gradients(), {.step = update, .grad_scale = 1 / static_cast<double>(tokens)});
  }

 private:
  train::FlatParameters parameters_;
  at::Tensor mean_, variance_;
};

struct Times {
  double forward = 0, loss = 0, backward = 0, adam = 0;
  double all() const { return forward + loss + backward + adam; }
};

// With one thread, measures the processor's time, so that other work on the machine does not count; else the wall's.
class Watch {
 public:
  double operator()() {
    const double now = milliseconds(), passed = now - start_;
    start_ = now;
    return passed;
  }

 private:
  static double milliseconds() {
    timespec now{};
    clock_gettime(at::get_num_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  }
  double start_ = milliseconds();
};

Times update(nn::Model& model, Optimiser& optimiser, const Batch& batch, int64_t number) {
  Watch time;
  Times times;
  optimiser.clear();
  const nn::ForwardContext context{.training = true, .dropout_seed = number};
  const at::Tensor memory = model->encode({batch.source.tokens, batch.source.offsets}, context);
  const at::Tensor hidden =
      model->decode({batch.inputs.tokens, batch.inputs.offsets, memory, batch.source.offsets}, context);
  times.forward = time();
  const ops::CrossEntropy cost = ops::cross_entropy(hidden, model->output_layer(), batch.outputs, 0.1);
  times.loss = time();
  cost.loss.backward();
  times.backward = time();
  optimiser.step(number, batch.outputs.numel());
  times.adam = time();
  return times;
}

void measure(const std::string& precision, int64_t tokens, int64_t updates) {
  nn::Model model(recipe_model(), 1);
  Optimiser optimiser(*model, precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  std::vector<Times> all;
  for (int64_t i = 1; i <= updates + 2; ++i) {
    const Times times = update(model, optimiser, make_batch(tokens, static_cast<uint64_t>(i)), i);
    if (i > 2) all.push_back(times);
  }
  std::nth_element(all.begin(), all.begin() + updates / 2, all.end(),
                   [](const Times& a, const Times& b) { return a.all() < b.all(); });
  const Times& median = all[static_cast<size_t>(updates / 2)];
  std::printf("%s %ld tokens %d threads: forward %.1f loss %.1f backward %.1f adam %.1f all %.1f ms, %.0f tokens/s\n",
              precision.c_str(), static_cast<long>(tokens), at::get_num_threads(), median.forward, median.loss,
              median.backward, median.adam, median.all(), 1e3 * static_cast<double>(tokens) / median.all());
}

void run(int argc, char** argv) {
  constexpr int64_t kMost = 1'000'000;
  const std::string precision = argc > 1 ? argv[1] : "float32";
  if (precision != "float32" && precision != "bfloat16")
    throw UsageError(cat("precision: got '", precision, "', expected float32 or bfloat16"));
  if (argc > 4)
    throw UsageError(cat("got ", argc - 1, " arguments, expected at most 3: [precision] [tokens] [updates]"));
  const int64_t tokens = argc > 2 ? bench::whole_number(argv[2], "tokens", kMost) : 4096;
  measure(precision, tokens, argc > 3 ? bench::whole_number(argv[3], "updates", kMost) : 10);
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) {
  return fovea::bench::exit_status("training_step", [&] {
    fovea::tune_malloc();
    fovea::run(argc, argv);
  });
}
