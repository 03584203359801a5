#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "fovea/nn/parameter_rules.h"
#include "fovea/nn/safetensors.h"

namespace torch::nn {
class Module;
}

namespace fovea::train {

// All parameters of a module in one float32 buffer, all gradients in another: the optimiser, the norm, averages and
// resets are one pass each. The module's parameters become views.
//
// In float32 the parameters are views of weights() and their gradients of gradients(). In bfloat16 the module computes
// on views of a bfloat16 copy, rounded from the float32 weights in the optimiser's pass; a backward pass leaves
// its gradients in bfloat16 (the kernels sum over tokens in float32 and round once), and add_gradients() sums passes in
// float32. The norm and the moments of the optimiser are float32 in both. Parameters whose rule says float32 are views
// of the float32 buffers in bfloat16, too.
class FlatParameters {
 public:
  // Moves the module to the device, and its parameters to the type; buffers keep theirs. Keeps the values in float32.
  // Throws an Error if a rule names no parameter.
  FlatParameters(torch::nn::Module& module, const at::Device& device, at::ScalarType type,
                 const nn::ParameterRules& rules = {});

  at::Tensor& weights() { return weights_; }
  const at::Tensor& weights() const { return weights_; }
  at::Tensor& gradients() { return gradients_; }
  const at::Tensor& gradients() const { return gradients_; }
  const at::Tensor& compute_copy() const { return compute_; }  // undefined in float32
  at::Tensor zeros() const;                                    // another buffer of the same kind: moments, averages

  void clear_gradients();                                    // before the passes of an update
  void add_gradients();                                      // after each pass
  void scale_gradients(const std::vector<double>& factors);  // one for each parameter, in the order of views()
  void clamp();    // after the optimiser's step: to the limits of the rules, the copy too
  void refresh();  // takes the copy anew, after weights() changed by other means than the optimiser

  // The parts of a buffer by parameter name, with the parameters' shapes.
  nn::NamedTensors views(const at::Tensor& flat) const;
  nn::NamedTensors copy_views() const;      // of compute_copy(), empty in float32
  int64_t count() const { return count_; }  // of parameters, without padding

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    int64_t start;
    nn::ParameterRule rule;
  };
  static at::Tensor part_of(const at::Tensor& flat, const Slot& slot);
  bool narrow() const { return compute_.defined(); }

  std::vector<Slot> slots_;
  int64_t size_ = 0, count_ = 0;
  at::Tensor weights_, gradients_;          // float32
  at::Tensor compute_, compute_gradients_;  // bfloat16, or undefined
};

// Copies `tensors` into the parts of `flat`; throws an Error that begins with `origin` if their names or shapes differ.
void restore(const FlatParameters& parameters, const at::Tensor& flat, const nn::NamedTensors& tensors,
             const std::string& origin);

}  // namespace fovea::train
