#include "fovea/models/formats/foreign_names.h"

#include <ATen/TensorOperators.h>

#include <array>

#include "fovea/base/strings.h"

namespace fovea::models {
namespace {

// Lists the tensors of one side.
class Lister {
 public:
  Lister(const EncoderDecoderConfig& config, bool in_decoder, std::vector<TensorPlace>& places)
      : width_(config.dim_emb), inner_(config.transformer_dim_ffn), places_(places) {
    place_.in_decoder = in_decoder;
    recurrent_ = in_decoder && has_recurrent_decoder(config);
    const int64_t depth = in_decoder ? config.dec_depth : config.enc_depth;
    for (place_.layer = 0; place_.layer < depth; ++place_.layer) add_layer();
    place_.layer = -1;
    if (config.transformer_norm == "pre") add_norm("", "norm");
  }

 private:
  void add_layer() {
    if (recurrent_) {
      add_ssru();
    } else {
      add_linear("self_attention", "qkv", "qkv", {3 * width_, width_});
      add_linear("self_attention", "o", "out", {width_, width_});
      add_norm("self_attention", "self_attention_norm");
    }
    if (place_.in_decoder) {
      add_linear("cross_attention", "q", "q", {width_, width_});
      add_linear("cross_attention", "kv", "kv", {2 * width_, width_});
      add_linear("cross_attention", "o", "out", {width_, width_});
      add_norm("cross_attention", "cross_attention_norm");
    }
    add_linear("feed_forward", "in", "in", {inner_, width_});
    add_linear("feed_forward", "out", "out", {width_, inner_});
    add_norm("feed_forward", "feed_forward_norm");
  }
  void add_ssru() {
    place_.block = "ssru";
    place_.projections = "vf";
    add({2 * width_, width_}, "ssru.weight", false);
    place_.projections = "f";
    add({width_}, "ssru.gate_bias", true);
    add_norm("ssru", "ssru_norm");
  }
  void add_linear(std::string_view block, std::string_view projections, std::string_view own,
                  const std::array<int64_t, 2>& shape) {
    place_.block = block;
    place_.projections = projections;
    const std::string name = cat(block, ".", own);
    add({shape[0], shape[1]}, name, false);
    add({shape[0]}, name, true);
  }
  void add_norm(std::string_view block, const std::string& own) {
    place_.block = block;
    place_.projections = "";
    add({width_}, own, false);
    add({width_}, own, true);
  }
  void add(std::vector<int64_t> shape, const std::string& own, bool is_bias) {
    place_.shape = std::move(shape);
    place_.is_bias = is_bias;
    const std::string layer = place_.layer < 0 ? "" : cat("layers.", place_.layer, ".");
    const std::string_view end = own.starts_with("ssru.") ? "" : is_bias ? ".bias" : ".weight";
    place_.own_name = cat(place_.in_decoder ? "decoder." : "encoder.", layer, own, end);
    places_.push_back(place_);
  }

  int64_t width_, inner_;
  bool recurrent_;
  TensorPlace place_;
  std::vector<TensorPlace>& places_;
};

}  // namespace

std::vector<TensorPlace> layer_tensors(const EncoderDecoderConfig& config) {
  std::vector<TensorPlace> places;
  Lister(config, false, places);
  Lister(config, true, places);
  return places;
}

std::vector<TensorLine> layer_lines(const EncoderDecoderConfig& config, const TensorNames& names, TensorForm form) {
  std::vector<TensorLine> list;
  for (const TensorPlace& place : layer_tensors(config)) {
    TensorLine line{.own_name = place.own_name, .parts = {}, .form = form};
    if (place.shape.size() > 1) line.columns = place.shape[1];
    const std::vector<std::string> theirs = names(place);
    for (const std::string& name : theirs) line.parts.push_back({name, place.shape[0] / std::ssize(theirs)});
    list.push_back(std::move(line));
  }
  return list;
}

void use_swish_for_gelu(const EncoderDecoderConfig& config, nn::NamedTensors& weights) {
  constexpr double kFactor = 1.702;
  for (const TensorPlace& place : layer_tensors(config)) {
    if (place.block != "feed_forward" || place.projections.empty()) continue;
    at::Tensor& weight = weights.at(place.own_name);
    if (place.projections == "in") weight = weight * kFactor;
    if (place.projections == "out" && !place.is_bias) weight = weight / kFactor;
  }
}

}  // namespace fovea::models
