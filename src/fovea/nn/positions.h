#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/nn/init.h"
#include "fovea/spec/positions.h"
#include "fovea/spec/stack_config.h"

// The model's half of spec/positions.h.
namespace fovea::nn {

// Positions from 0 of each token within its sequence, [T] int64 on the CPU, and the greatest one plus 1.
struct TokenPositions {
  at::Tensor position;
  int64_t longest = 0;
};
// offsets [B + 1]: sequence b has tokens offsets[b] ... offsets[b + 1] - 1, the first at position before[b] (0 if
// `before` is empty).
TokenPositions token_positions(const at::Tensor& offsets, std::span<const int64_t> before = {});

// A model adds row index[t] of `table` [P, M] to the embedding of token t; nothing if `table` is undefined.
struct PositionVectors {
  at::Tensor table, index;  // index [T] int64
};

// Learned vectors of a value's row, column and channel in an image, added together.
struct ImageTables {
  at::Tensor rows, columns, channels;  // [height, M], [width, M], [channels, M]
  // Throws an Error if a position lies outside the image.
  PositionVectors vectors(const TokenPositions& positions) const;
};

// The table that a model adds to its embeddings: computed (sinusoidal, grows as needed), learned (the parameter
// "weight", max_positions rows; for images the parameters "rows", "columns" and "channels"), or none.
class Positions : public torch::nn::Module {
 public:
  // `image_shape` is [height, width, channels] with the positions "image", else empty.
  Positions(const StackConfig& config, const std::vector<int64_t>& image_shape, const InitScope& scope);
  // Returns vectors of the type and on the device of `like`. Throws an Error if a learned table is too short.
  PositionVectors vectors(const TokenPositions& positions, const at::Tensor& like);

 private:
  at::Tensor table(int64_t length, const at::Tensor& like);  // of at least `length` rows, or undefined

  int64_t width_;
  std::optional<Sinusoidal> sinusoidal_;
  at::Tensor weight_;                 // learned
  at::Tensor cached_;                 // sinusoidal
  std::optional<ImageTables> image_;  // image
};

// [rows, width]. Row p is position p + first: sin(position f_i), i < M / 2, then cos. f_i = 10000^(-i / (M / 2 - 1)),
// as fairseq and Marian have it, or 10000^(-2 i / M), the paper's.
at::Tensor sinusoidal_table(int64_t rows, int64_t width, const Sinusoidal& scheme = {});

}  // namespace fovea::nn
