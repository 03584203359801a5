#pragma once
#include <cstdint>
#include <memory>

namespace fovea::nn {

class PassExtras;  // pass_extras.h
struct Clauses;    // clauses.h

// The conditions of one forward pass besides its tokens. random(k) draws from the configuration's attention_seed, so
// that a checkpoint decodes with the pairs that it was trained with.
struct ForwardContext {
  bool training = false;         // dropout on, --sparsify train selects
  int64_t dropout_seed = 0;      // of this pass, from (seed of the run, update); each use derives its own
  bool recompute = false;        // gradient checkpointing: backward computes each layer again; the same gradients
  PassExtras* extras = nullptr;  // takes the terms of the loss and the figures of the pass; null: they are not computed
  std::shared_ptr<const Clauses> clauses = nullptr;  // of the encoder's tokens, if its mechanisms need them
};

}  // namespace fovea::nn
