#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace fovea::nn {

// Where the clauses of a packed batch begin, for clause attention.
struct Clauses {
  // By level, from 1: [C + 1] int64 on the CPU, the ends of sentences among them. A level above the last is the last.
  std::vector<at::Tensor> offsets;
  const at::Tensor& of_level(int64_t level) const;
};

// Splits a packed batch: token ids [T] on the CPU, offsets [B + 1].
using ClauseSplitter = std::function<Clauses(const at::Tensor& tokens, const at::Tensor& offsets)>;

}  // namespace fovea::nn
