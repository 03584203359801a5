#include "copy_task.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <csignal>
#include <memory>

#include "fovea/base/error.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/init.h"
#include "fovea/ops/step.h"
#include "fovea/train/measure.h"

namespace own {
using namespace fovea;

void add_problems(const CopyOptions& options, Problems& problems) { problems.add_ranges(options); }

void validate(const CopyModel& model) {
  Problems problems;
  problems.add_ranges(model);
  problems.throw_if_any();
}

namespace {

// The results of validation.
struct CopyScore {
  double copied = 0, nats = 0;  // the share of right symbols, and the mean of -log p
};

const train::MeasureTable<const CopyScore>& measures() {
  static const train::MeasureTable<const CopyScore> kTable = {
      {{"copied", false, 3}, [](const CopyScore& s) { return s.copied; }},
      {{"nats", true, 4}, [](const CopyScore& s) { return s.nats; }}};
  return kTable;
}

}  // namespace

std::span<const train::Measure> CopyTask::known_measures() { return measures().known(); }

CopyTask::CopyTask(const TrainConfig& config, const CopyOptions& options, const CopyModel& model,
                   int64_t /*batches_an_update*/)
    : options_(options), seed_(config.seed), symbols_(model.symbols), echo_(at::zeros({symbols_})) {
  const auto module = std::make_shared<torch::nn::Module>();
  weight_ = module->register_parameter(
      "weight", nn::normal_tensor({symbols_, symbols_}, 0.1, nn::InitScope(config.seed) / "weight"));
  bias_ = module->register_parameter("bias", at::zeros({symbols_}));
  share_ = module->register_parameter("share", at::ones({}));
  updates_ = module->register_buffer("updates", at::zeros({}));
  parts_ = {.module = module,
            .rules = {{"share", {.float32 = true, .low = kLeastShare}}},
            .identity = nn::identity_of("copy", model, {{"alphabet.txt", cat(model.symbols, " symbols\n")}}),
            .fingerprint = cat("copy ", options_.batches, " ", options_.length, " ", seed_),
            .valid_fingerprint = options_.with_validation ? "made of seed 0" : "",
            .measures = known_measures(),
            .default_measures = {"copied"}};
}

std::vector<int64_t> CopyTask::begin_epoch(int64_t epoch) {
  epoch_ = epoch;
  echo_ = at::zeros({symbols_});
  return std::vector<int64_t>(static_cast<size_t>(options_.batches), options_.length);
}

at::Tensor CopyTask::symbols(uint64_t seed) const {
  Rng rng(seed);
  at::Tensor result = at::empty({options_.length}, at::kLong);
  for (int64_t i = 0; i < options_.length; ++i)
    result.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(rng.below(static_cast<uint64_t>(symbols_)));
  return result;
}

at::Tensor CopyTask::hidden(const at::Tensor& symbols) const {
  const at::Tensor inputs = at::one_hot(symbols, symbols_).to(weight_.scalar_type());
  if (share_.scalar_type() != at::kFloat || updates_.scalar_type() != at::kFloat)
    throw Error("the share and the number of updates have to stay float32");
  return inputs + (share_ * echo_).to(inputs.scalar_type());
}

train::BatchLoss CopyTask::loss(int64_t batch, const nn::ForwardContext& context) {
  if (++calls_ == options_.die_at) std::raise(SIGKILL);
  const at::Tensor targets =
      symbols(hash_combine(static_cast<uint64_t>(seed_), static_cast<uint64_t>(epoch_ * 1000 + batch)));
  const at::Tensor inputs = ops::dropout(hidden(targets), {.rate = 0.1, .seed = context.dropout_seed});
  pending_ = inputs.detach().to(at::kFloat).mean(0).mul_(0.5);
  return {ops::cross_entropy(inputs, {weight_, bias_}, targets, 0).loss,
          static_cast<double>(options_.length),
          {{"share", share_.item<double>()}, {"batch", static_cast<double>(batch)}}};
}

void CopyTask::after_update(bool made) {
  echo_ = made ? pending_ : at::zeros({symbols_});
  if (made) updates_.add_(1);
}

void CopyTask::restore(const nn::NamedTensors& carried, const std::string& origin) {
  echo_ = nn::tensor_of(carried, "echo", {symbols_}, origin);
}

std::vector<double> CopyTask::validate(const std::vector<std::string>& names) {
  const torch::NoGradGuard no_grad;
  const at::Tensor targets = symbols(0), inputs = at::one_hot(targets, symbols_).to(weight_.scalar_type());
  const at::Tensor logits = ops::linear(inputs, weight_, bias_);
  const CopyScore score = {.copied = logits.argmax(1).eq(targets).to(at::kDouble).mean().item<double>(),
                           .nats = ops::token_scores(inputs, {weight_, bias_}, targets).nll.mean().item<double>()};
  return measures().values(score, names);
}

}  // namespace own
