// Shows where the processor's time goes in one update of a language model of bytes (4 layers of 256, 4 heads,
// feed-forward blocks of 1,024, 16,384 bytes), on made-up text with one thread: JSON of milliseconds and minor page
// faults of each kind of work, means of the updates behind the first two. Usage: update_profile [float32|bfloat16]
// [tokens of a segment] [attention] [updates] [activation]
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <sys/resource.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "fovea/base/malloc.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/model.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/step.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/updater.h"
#include "made_tokens.h"

namespace fovea {
namespace {

constexpr int64_t kVocabulary = 257, kUpdateTokens = 16384;

struct Kind {
  const char* name;
  std::vector<std::string_view> parts;  // of the names that PyTorch's profiler shows; the first kind that fits counts
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"attention", {"ttention"}},
      {"optimiser", {"adam", "l2_norm"}},
      {"loss", {"cross_entropy", "::Loss>"}},
      {"norms", {"norm", "Norm"}},
      {"activations", {"gated", "activated", "LayerUnits", "gelu", "Gelu", "silu", "Silu"}},
      {"dropout", {"dropout", "Dropout"}},
      {"embeddings", {"embed", "Embed"}},
      {"positions", {"otary"}},
      {"products", {"linear", "Linear"}},
      {"copies", {"cat", "stack", "copy", "contiguous", "clone", "Unbind", "Split", "unbind"}},
      {"gradients added", {"AccumulateGrad", "add", "zero", "fill"}},
  };
  return all;
}

std::string_view kind_of(std::string_view name) {
  for (const Kind& kind : kinds()) {
    if (std::ranges::any_of(kind.parts, [&](std::string_view part) { return name.find(part) != name.npos; }))
      return kind.name;
  }
  return "other";
}

struct Cost {
  double milliseconds = 0;  // of the process's threads, in the system too
  int64_t faults = 0;
  Cost& operator+=(const Cost& other) {
    milliseconds += other.milliseconds, faults += other.faults;
    return *this;
  }
};

Cost spent() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec), usage.ru_minflt};
}

// Shares out what the process spends: to the innermost named call at each moment, which is one because calls of one
// thread nest, and backward runs on the thread that asks for it.
class Ledger {
 public:
  void enter(std::string_view kind) {
    charge();
    open_.push_back(kind);
  }
  void leave() {
    charge();
    open_.pop_back();
  }
  void restart() {
    costs_.clear();
    last_ = spent();
  }
  const std::map<std::string_view, Cost>& costs() const { return costs_; }

 private:
  void charge() {
    const Cost now = spent();
    costs_[open_.empty() ? "other" : open_.back()] +=
        Cost{now.milliseconds - last_.milliseconds, now.faults - last_.faults};
    last_ = now;
  }

  Cost last_;
  std::vector<std::string_view> open_;
  std::map<std::string_view, Cost> costs_;
};

Ledger& ledger() {
  static Ledger one;
  return one;
}

std::unique_ptr<at::ObserverContext> on_enter(const at::RecordFunction& call) {
  ledger().enter(kind_of(call.name()));
  return nullptr;
}
void on_leave(const at::RecordFunction& /*call*/, at::ObserverContext* /*context*/) { ledger().leave(); }

class ProfiledTask : public train::Task {
 public:
  ProfiledTask(const ModelConfig& config, int64_t segment) : model_(config, 1), rng_(1) {
    parts_.module = model_.ptr();
    std::vector<int64_t> offsets;
    for (int64_t at = 0; at <= kUpdateTokens; at += segment) offsets.push_back(at);
    if (offsets.back() < kUpdateTokens) offsets.push_back(kUpdateTokens);
    offsets_ = nn::index_tensor(std::move(offsets));
  }
  std::vector<int64_t> begin_epoch(int64_t /*epoch*/) override { return {}; }
  train::BatchLoss loss(int64_t /*batch*/, const nn::ForwardContext& context) override {
    const at::Tensor inputs = bench::made_tokens(kUpdateTokens, kVocabulary, rng_),
                     outputs = bench::made_tokens(kUpdateTokens, kVocabulary, rng_);
    const at::Tensor hidden = model_->decode({.tokens = inputs, .offsets = offsets_}, context);
    return {ops::cross_entropy(hidden, model_->output_layer(), outputs, 0.1).loss, static_cast<double>(kUpdateTokens)};
  }
  std::vector<double> validate(const std::vector<std::string>& /*names*/) override { return {}; }

 private:
  nn::Model model_;
  Rng rng_;
  at::Tensor offsets_;
};

struct Wish {
  std::string precision = "float32", attention = "full", activation = "gelu";
  int64_t segment = 512, updates = 3;
};

void print(const Wish& wish) {
  std::printf("{\"precision\": \"%s\", \"segment\": %ld, \"attention\": \"%s\", \"activation\": \"%s\", \"parts\": {",
              wish.precision.c_str(), static_cast<long>(wish.segment), wish.attention.c_str(), wish.activation.c_str());
  const char* comma = "";
  const auto count = static_cast<double>(wish.updates);
  for (const auto& [kind, cost] : ledger().costs()) {
    std::printf("%s\"%s\": {\"ms\": %.2f, \"faults\": %.0f}", comma, std::string(kind).c_str(),
                cost.milliseconds / count, static_cast<double>(cost.faults) / count);
    comma = ", ";
  }
  std::printf("}}\n");
}

void profile(const Wish& wish) {
  DecoderConfig config;
  config.transformer_norm_kind = "layer", config.transformer_positions = "sinusoidal";
  config.dim_emb = 256, config.dec_depth = 4, config.transformer_heads = 4, config.transformer_dim_ffn = 1024;
  config.transformer_ffn_activation = wish.activation, config.attention = wish.attention;
  config.dim_vocabs = {kVocabulary};
  validate(config);
  ProfiledTask task(config, wish.segment);
  TrainConfig training;
  training.precision = wish.precision;
  train::Updater updater(training, task.module(), at::kCPU);
  at::addGlobalCallback(at::RecordFunctionCallback(on_enter, on_leave));
  constexpr int64_t kFirst = 2;  // which fault memory in
  for (int64_t update = 1; update <= kFirst + wish.updates; ++update) {
    if (update == kFirst + 1) ledger().restart();
    updater.update(task, {.update = update, .dropout_seed = update, .learn_rate = 1e-4});
  }
  print(wish);
}

void run(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  if (given.size() > 5)
    throw UsageError(cat("got ", given.size(),
                         " arguments, expected at most 5: [precision] [segment] [attention] [updates] [activation]"));
  Wish wish;
  if (given.size() > 0) wish.precision = given[0];
  if (wish.precision != "float32" && wish.precision != "bfloat16")
    throw UsageError(cat("precision: got '", wish.precision, "', expected float32 or bfloat16"));
  if (given.size() > 1) wish.segment = bench::whole_number(given[1], "segment", kUpdateTokens);
  if (given.size() > 2) wish.attention = given[2];
  if (given.size() > 3) wish.updates = bench::whole_number(given[3], "updates", 1000);
  if (given.size() > 4) wish.activation = given[4];
  profile(wish);
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) {
  return fovea::bench::exit_status("update_profile", [&] {
    fovea::tune_malloc();
    at::set_num_threads(1);
    fovea::run(argc, argv);
  });
}
