#pragma once
#include <torch/nn/module.h>

#include <memory>

#include "fovea/nn/init.h"
#include "fovea/nn/layers.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::nn {

// The factors of an attention's scaled queries (spec/query_scale.h), for H heads and a model of width M. Parameters, as
// far as some head needs them: weight [H] for SSMax, at first normal around 1 with a deviation of 0.01;
// base.weight and power.weight [H, M] for ASEntmax.
class QueryFactors : public torch::nn::Module {
 public:
  struct Shape {
    int64_t heads = 0, width = 0;
  };
  QueryFactors(const AttentionParameters& needs, const Shape& shape, const InitScope& scope);

  bool reads_input() const { return base_ != nullptr; }
  // Returns [T, H], for heads that are not scaled 1; float32, or float64 if the model is. counts [T, H], the numbers of
  // candidates; x [T, M], what the queries are projected from, may be undefined unless it is read.
  at::Tensor operator()(const LayerSpec& mechanism, const at::Tensor& counts, const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  std::shared_ptr<Linear> base_, power_;
};

}  // namespace fovea::nn
