#pragma once
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/train/task.h"

namespace fovea::train {

// Parameters of every rank, of odd sizes.
struct ToyModule final : torch::nn::Module {
  ToyModule() {
    const std::vector<std::pair<const char*, std::vector<int64_t>>> shapes = {
        {"cube", {3, 5, 7}}, {"matrix", {37, 19}}, {"scalar", {}}, {"vector", {101}}};
    for (const auto& [name, shape] : shapes) register_parameter(name, numbers(shape, 0, name));
    register_buffer("buffer", at::ones({3}));
  }

  // Normal, different for each seed and name; bfloat16 holds them.
  static at::Tensor numbers(at::IntArrayRef shape, uint64_t seed, const std::string& name) {
    at::Tensor values = at::empty(shape, at::kFloat);
    Rng rng(hash_combine(seed, std::hash<std::string>()(name)));
    for (int64_t i = 0; i < values.numel(); ++i) values.mutable_data_ptr<float>()[i] = static_cast<float>(rng.normal());
    return values.to(at::kBFloat16).to(at::kFloat);
  }
};

// The loss of a batch is the sum of all parameters, each multiplied by a number of its own: these are the gradients,
// whatever the weights. Two rows of three of the matrix have none, as rows of an embedding.
class ToyTask final : public Task {
 public:
  static constexpr double kWeight = 3;  // of a batch
  explicit ToyTask(nn::ParameterRules rules = {}) {
    parts_ = {.module = std::make_shared<ToyModule>(), .rules = std::move(rules), .fingerprint = "toy"};
  }

  static at::Tensor gradient(const std::string& name, at::IntArrayRef shape, int64_t batch) {
    at::Tensor gradient = ToyModule::numbers(shape, static_cast<uint64_t>(batch) + 1, name);
    if (name != "matrix") return gradient;
    return gradient * at::arange(shape[0]).add(batch).remainder(3).eq(0).unsqueeze(1);
  }

  std::vector<int64_t> begin_epoch(int64_t /*epoch*/) override { return {1}; }
  BatchLoss loss(int64_t batch, const nn::ForwardContext& /*context*/) override {
    at::Tensor sum = at::zeros({});
    for (const auto& item : module().named_parameters()) {
      const at::Tensor& parameter = item.value();
      const at::Tensor factors = gradient(item.key(), parameter.sizes(), batch).to(parameter.scalar_type());
      sum = sum + (parameter * factors).sum().to(at::kFloat) * scale;
    }
    return {sum, kWeight, {{"batch", static_cast<double>(batch)}}};
  }
  std::vector<double> validate(const std::vector<std::string>& /*names*/) override { return {}; }

  double scale = 1;  // of the loss
};

}  // namespace fovea::train
