#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fovea/nn/safetensors.h"

namespace torch::nn {
class Module;
}

namespace fovea::nn {

// The beginnings of the clauses of a packed batch, for clause attention.
struct Clauses {
  // For each level, from 1: [C + 1] int64 on the CPU, with the ends of sentences. A level above the last is the last.
  std::vector<at::Tensor> offsets;
  const at::Tensor& of_level(int64_t level) const;
};

// For each token of a packed batch the level from which on a clause begins with it; 0: in none. The first token of a
// sequence begins one in all levels, whatever it has here. offsets [B + 1].
Clauses clauses_of_levels(std::span<const uint8_t> levels, std::span<const int64_t> offsets);

// Gives the parameters of a module's learned mixtures that `weights` lacks values that hardly change the model's
// output: p = 0.047.
void add_mixtures(const torch::nn::Module& module, NamedTensors& weights);

// Splits a packed batch: token ids [T] on the CPU, offsets [B + 1].
using ClauseSplitter = std::function<Clauses(const at::Tensor& tokens, const at::Tensor& offsets)>;

}  // namespace fovea::nn
