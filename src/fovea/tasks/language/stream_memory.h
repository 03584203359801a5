#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/streams.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/memory.h"

namespace fovea::language {

// The memory of all streams of a training, from update to update. A shard is the streams that one batch of an update
// reads (data/streams.h).
class StreamMemory {
 public:
  // `limit` units of each stream, `shards` batches of one update.
  StreamMemory(int64_t limit, int64_t shards) : limit_(limit), carried_(static_cast<size_t>(shards)) {}

  void clear();  // at the beginning of an epoch
  // For the forward pass of a batch: each sequence with the memory of its stream, unless it is fresh.
  std::shared_ptr<nn::MemoryPass> begin(int64_t shard, const data::Segments& segments) const;
  // Takes the memory that the pass leaves; it counts from the next update on.
  void end(int64_t shard, const data::Segments& segments, nn::MemoryPass& pass);
  // Behind an update: what its passes left replaces what they saw. If it was not made, all streams begin again.
  void after_update(bool made);

  // For exact resume: "SHARD/lengths" [streams], "SHARD/LAYER" [units, M] float32.
  nn::NamedTensors tensors() const;
  // Throws an Error that begins with `origin` if the tensors do not fit these numbers of layers, shards and units.
  // `options` are those of the model's activations.
  struct Expected {
    int64_t layers, width;
    at::TensorOptions options;
  };
  void restore(const nn::NamedTensors& tensors, const Expected& expected, const std::string& origin);

 private:
  int64_t limit_;
  std::vector<nn::Memory> carried_;
  std::vector<std::pair<size_t, nn::Memory>> pending_;  // shard and memory of the passes since the last update
};

}  // namespace fovea::language
