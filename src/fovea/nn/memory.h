#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

// Memory of earlier segments (Transformer-XL, Dai et al. 2019): the keys of a segment are those of its own tokens and
// of the tokens before it. A value, which belongs to the stream's reader; modules hold none. M = dim_emb.
namespace fovea::nn {

// The inputs of a stack's self-attentions for the last tokens of some streams: with post-norm a layer's input, with
// pre-norm the normalised one.
struct Memory {
  std::vector<at::Tensor> inputs;  // of each layer, [sum of lengths, M], without a graph; none: nothing is remembered
  std::vector<int64_t> lengths;    // [streams], tokens of each

  // The memory of streams[0], streams[1] ...; -1 is a stream without any.
  Memory of(std::span<const int64_t> streams) const;
  // An empty memory of `streams` streams.
  static Memory none(size_t streams) { return {{}, std::vector<int64_t>(streams, 0)}; }
};

// One pass of a stack over the next segments of B streams. Shared with what backward computes again.
class MemoryPass {
 public:
  // `before` of B streams; `limit` tokens of each are remembered at most, so `before` has no more.
  MemoryPass(Memory before, int64_t limit);
  // Begins the pass over the segments, offsets [B + 1]; called by the stack before any layer.
  void begin(const at::Tensor& offsets, size_t layers);

  const at::Tensor& key_offsets() const { return key_offsets_; }      // [B + 1] int64 on the CPU: memory and segment
  const at::Tensor& key_positions() const { return key_positions_; }  // [T_k]: from 0 at the beginning of the memory
  const at::Tensor& positions() const { return positions_; }          // [T] of the segments' tokens
  // Memory and segment of each stream side by side: x [T, M] -> [T_k, M]. Remembers their end for the next pass.
  at::Tensor join(size_t layer, const at::Tensor& x);
  // Returns the memory for the next pass over the same streams, once all layers have run. Later calls of join(), when
  // backward computes layers again, do not change it.
  Memory take();

 private:
  void remember(size_t layer, const at::Tensor& joined);

  Memory before_, after_;
  int64_t limit_;
  bool taken_ = false;
  at::Tensor key_offsets_, key_positions_, positions_;
  std::vector<int64_t> offsets_;  // [B + 1]
};

}  // namespace fovea::nn
