#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

// Initial weights by counter: element i of a parameter is a function of (seed of the run, the parameter's name, i)
// alone, so every machine, thread count and order of construction gives the same model.
namespace fovea::nn {

// The place of a parameter's name, from the root down: InitScope(seed) / "encoder" / "layers.0" / "weight".
class InitScope {
 public:
  // If there is no seed, weights will be loaded: tensors are zero and take no memory, whatever their shape, until
  // load_parameters() gives them their data. Nothing may be written into them before.
  explicit InitScope(std::optional<int64_t> seed);
  InitScope operator/(std::string_view name) const;
  uint64_t key() const { return key_; }
  bool blank() const { return blank_; }

 private:
  bool blank_;
  uint64_t key_;
};

at::Tensor uniform_tensor(at::IntArrayRef shape, double limit, const InitScope& scope);  // float32, in [-limit, limit)
at::Tensor normal_tensor(at::IntArrayRef shape, double stddev, const InitScope& scope);
at::Tensor constant_tensor(at::IntArrayRef shape, double value, const InitScope& scope);

// Glorot and Bengio 2010: the limit of the uniform distribution for a [out, in] matrix.
double xavier_limit(int64_t in, int64_t out, double gain = 1);

}  // namespace fovea::nn
