#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/formats/tensor_taker.h"
#include "fovea/spec/model_config.h"

// The layers of translation models, tensor by tensor, so that each format only says what it calls them.
namespace fovea::models {

// A tensor of a layer, or of the norm after the last one.
struct TensorPlace {
  bool in_decoder = false;
  int64_t layer = 0;       // from 0; -1: after the last one
  std::string_view block;  // "self_attention", "ssru", "cross_attention", "feed_forward", ""
  // "q", "kv", "qkv", "o"; of feed_forward "in", "out"; of ssru "vf", and "f" for the bias; "": a norm
  std::string_view projections = {};
  bool is_bias = false;
  std::vector<int64_t> shape;  // of our tensor
  std::string own_name;        // of our parameter
};

// All of them, in a fixed order.
std::vector<TensorPlace> layer_tensors(const EncoderDecoderConfig& config);

// The names by which a format knows a tensor: one, or one for each of the stacked projections.
using TensorNames = std::function<std::vector<std::string>(const TensorPlace&)>;

// The list of all layers' tensors by our names and the format's.
std::vector<TensorLine> layer_lines(const EncoderDecoderConfig& config, const TensorNames& names,
                                    TensorForm form = TensorForm::kOurs);

// Scales the weights of a model whose activation is x sigmoid(1.702 x), which Marian calls gelu: as this is
// swish(1.702 x) / 1.702, the model computes the same with swish and the factors in the matrices around it.
void use_swish_for_gelu(const EncoderDecoderConfig& config, nn::NamedTensors& weights);

}  // namespace fovea::models
