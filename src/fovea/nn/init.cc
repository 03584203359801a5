#include "fovea/nn/init.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/base/rng.h"
#include "fovea/ops/executor.h"

namespace fovea::nn {
namespace {

constexpr int64_t kGrain = 1 << 15;

// The counter-th number of a key's sequence in [0, 1), 53 bits.
double uniform_at(uint64_t key, int64_t counter) {
  const auto bits = mix64(key + 0x9e3779b97f4a7c15ULL * static_cast<uint64_t>(counter));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// One zero, seen through the whole shape.
at::Tensor blank_tensor(at::IntArrayRef shape) { return at::zeros({}, at::kFloat).expand(shape); }

template <class Draw>
at::Tensor filled(at::IntArrayRef shape, const InitScope& scope, const Draw& draw) {
  if (scope.blank()) return blank_tensor(shape);
  at::Tensor tensor = at::empty(shape, at::kFloat);
  auto* data = tensor.mutable_data_ptr<float>();
  const int64_t count = tensor.numel();
  ops::torch_executor().run((count + kGrain - 1) / kGrain, [&](int64_t piece, int) {
    const int64_t end = std::min(count, (piece + 1) * kGrain);
    for (int64_t i = piece * kGrain; i < end; ++i) data[i] = static_cast<float>(draw(i));
  });
  return tensor;
}

}  // namespace

InitScope::InitScope(std::optional<int64_t> seed)
    : blank_(!seed.has_value()), key_(mix64(static_cast<uint64_t>(seed.value_or(0)))) {}

InitScope InitScope::operator/(std::string_view name) const {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  InitScope child = *this;
  child.key_ = hash_combine(key_, hash);
  return child;
}

at::Tensor uniform_tensor(at::IntArrayRef shape, double limit, const InitScope& scope) {
  return filled(shape, scope, [&](int64_t i) { return limit * (2 * uniform_at(scope.key(), i) - 1); });
}

at::Tensor normal_tensor(at::IntArrayRef shape, double stddev, const InitScope& scope) {
  return filled(shape, scope, [&](int64_t i) {  // Box-Muller, one of the pair; 1 - u lies in (0, 1]
    const double radius = std::sqrt(-2 * std::log(1 - uniform_at(scope.key(), 2 * i)));
    return stddev * radius * std::cos(2 * std::numbers::pi * uniform_at(scope.key(), 2 * i + 1));
  });
}

at::Tensor constant_tensor(at::IntArrayRef shape, double value, const InitScope& scope) {
  return scope.blank() ? blank_tensor(shape) : at::full(shape, value, at::kFloat);
}

double xavier_limit(int64_t in, int64_t out, double gain) {
  return gain * std::sqrt(6.0 / static_cast<double>(in + out));
}

}  // namespace fovea::nn
