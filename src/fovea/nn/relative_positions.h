#pragma once
#include <torch/nn/module.h>

#include <optional>
#include <vector>

#include "fovea/nn/init.h"
#include "fovea/ops/attention.h"
#include "fovea/spec/positions.h"

// The schemes of spec/positions.h that act on scores, as terms by the offset of a key from its query. H heads of D,
// M = H D.
namespace fovea::nn {

// The schemes of a model, and the parameters that all attentions of a stack share.
struct RelativeSchemes {
  std::optional<Shaw> shaw;
  std::optional<TransformerXl> transformer_xl;
  bool alibi = false;
  at::Tensor content_bias, position_bias;  // [H, D], transformer-xl: u and v of Dai et al. 2019

  explicit RelativeSchemes(const PositionSchemes& schemes = {});
  bool any() const { return shaw || transformer_xl || alibi; }
  // Registers the shared parameters, if there are any, as "relative.content_bias" and "relative.position_bias".
  void register_shared(torch::nn::Module& owner, int64_t heads, int64_t head_dim, const InitScope& scope);
};

struct RelativeShape {
  int64_t heads = 1, head_dim = 1;
  bool causal = true;
};

// The relative positions of one self-attention. Parameters:
//   keys, values [2 R + 1, D]    shaw: of distances -R ... R, shared by the heads; values if the scheme has them
//   weight [M, M]                transformer-xl: W_r
class RelativePositions : public torch::nn::Module {
 public:
  RelativePositions(const RelativeSchemes& schemes, const RelativeShape& shape, const InitScope& scope);

  // The tables for sequences of up to `length` tokens; they do not depend on the queries.
  struct Tables {
    int64_t length = 0;
    at::Tensor by_head;  // alibi: [H, offsets]
    at::Tensor rows;     // transformer-xl: [offsets, H, D]
    int64_t by_head_first = 0, rows_first = 0;
  };
  Tables tables(int64_t length, const at::TensorOptions& options) const;

  // q [T, H, D], not turned by its positions; scale is that of the attention.
  ops::OffsetTerms terms(const at::Tensor& q, const Tables& tables, double scale) const;
  // The queries that meet the keys themselves.
  at::Tensor content(const at::Tensor& q) const;

 private:
  RelativeSchemes schemes_;
  RelativeShape shape_;
  at::Tensor keys_, values_, weight_;
};

// ALiBi's slope of each head, [H]: a geometric sequence from 2^(-8 / H), and for H that is not a power of two the
// sequence of the next lower power, then every other of the sequence for twice as many heads.
std::vector<double> alibi_slopes(int64_t heads);

// Row i has distance distances[i]: sin(distance f_j), j < M / 2, then cos, f_j = 10000^(-2 j / M). Float32.
at::Tensor distance_table(const at::Tensor& distances, int64_t width);

}  // namespace fovea::nn
