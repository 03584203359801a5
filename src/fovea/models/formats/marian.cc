#include "fovea/models/formats/marian.h"

#include <ATen/Functions.h>

#include <cstring>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/data/npz.h"
#include "fovea/models/formats/foreign_names.h"
#include "fovea/models/formats/piece_ids.h"
#include "fovea/models/formats/tensor_taker.h"
#include "fovea/spec/config_yaml.h"

namespace fovea::models {
namespace {

constexpr const char* kOptionsArray = "special:model.yml";

// The options, without the zero bytes that end them.
std::string options_text(const data::NpzArray& array) {
  std::string text(array.values());
  const size_t end = text.find('\0');
  if (end != std::string::npos) text.resize(end);
  return text;
}

nn::NamedTensors tensors_of(const std::map<std::string, data::NpzArray>& arrays, const std::string& origin) {
  nn::NamedTensors tensors;
  for (const auto& [name, array] : arrays) {
    if (name == kOptionsArray) continue;
    if (array.header.type != "<f4" && array.header.type != "<f2")
      throw Error(cat(origin, ": the array '", name, "' is of type '", array.header.type,
                      "'; expected weights of float32 or float16, not a quantised model"));
    const at::ScalarType type = array.header.type == "<f4" ? at::kFloat : at::kHalf;
    const at::Tensor tensor = at::empty(array.header.shape, type);
    std::memcpy(tensor.mutable_data_ptr(), array.values().data(), array.values().size());
    tensors[name] = tensor;
  }
  return tensors;
}

// Marian's names of the arrays of an SSRU, whose W has no bias.
std::vector<std::string> ssru_names(const std::string& layer, const TensorPlace& place, bool is_pre) {
  const std::string_view part = place.is_bias ? "bias" : "scale";
  if (place.projections.empty())
    return {is_pre ? cat(layer, "_rnn_ln_", part, "_pre") : cat(layer, "_rnn_ffn_ln_", part)};
  if (place.is_bias) return {cat(layer, "_rnn_bf")};
  return {cat(layer, "_rnn_W"), cat(layer, "_rnn_Wf")};
}

// Marian counts layers from 1, and has a matrix for each of q, k and v.
std::vector<std::string> marian_names(const TensorPlace& place, bool is_pre) {
  const std::string side = place.in_decoder ? "decoder" : "encoder";
  const std::string norm = cat("_ln_", place.is_bias ? "bias" : "scale");
  if (place.layer < 0) return {cat(side, "_top", norm)};
  if (place.block == "ssru") return ssru_names(cat(side, "_l", place.layer + 1), place, is_pre);
  const std::string_view kind =
      place.block == "self_attention" ? "self" : (place.block == "cross_attention" ? "context" : "ffn");
  const std::string base = cat(side, "_l", place.layer + 1, "_", kind, "_");
  if (place.projections.empty()) return {cat(base, kind == "ffn" ? "ffn" : "Wo", norm, is_pre ? "_pre" : "")};
  const std::string_view letter = place.is_bias ? "b" : "W";
  if (kind == "ffn") return {cat(base, letter, place.projections == "in" ? "1" : "2")};
  std::vector<std::string> names;
  for (const char projection : place.projections) names.push_back(cat(base, letter, projection));
  return names;
}

// Layers that Marian ties have one set of arrays, under the first one's name; here each layer gets its own.
void untie_layers(const std::vector<int64_t>& tied, nn::NamedTensors& tensors) {
  nn::NamedTensors copies;
  for (size_t i = 0; i < tied.size(); ++i) {
    const std::string from = cat("decoder_l", tied[i], "_"), to = cat("decoder_l", i + 1, "_");
    if (from == to) continue;
    for (const auto& [name, tensor] : tensors)
      if (name.starts_with(from)) copies[cat(to, name.substr(from.size()))] = tensor;
  }
  tensors.merge(copies);
}

// Without an output projection an attention's heads are its result.
void add_identities(const EncoderDecoderConfig& config, nn::NamedTensors& tensors) {
  for (const TensorPlace& place : layer_tensors(config)) {
    if (place.projections != "o") continue;
    const int64_t width = config.dim_emb;
    tensors[marian_names(place, false).front()] = place.is_bias ? at::zeros({1, width}) : at::eye(width);
  }
}

void read_tables(TensorTaker& tensors, const EncoderDecoderConfig& config, nn::NamedTensors& weights) {
  const int64_t width = config.dim_emb, source = config.dim_vocabs.at(0), target = config.dim_vocabs.at(1);
  if (config.tied_embeddings_all || config.tied_embeddings_src) {
    weights["embeddings.weight"] = tensors.take("Wemb", {source, width});
  } else {
    weights["encoder.embeddings.weight"] = tensors.take("encoder_Wemb", {source, width});
    weights["decoder.embeddings.weight"] = tensors.take("decoder_Wemb", {target, width});
  }
  const std::string output = "decoder_ff_logit_out";
  if (!config.tied_embeddings_all && !config.tied_embeddings)
    weights["output.weight"] = tensors.has(output + "_Wt")
                                   ? tensors.take(output + "_Wt", {target, width})
                                   : tensors.take(output + "_W", {width, target}).t().contiguous();
  weights["output.bias"] = tensors.take(output + "_b", {1, target}).flatten();
}

}  // namespace

ForeignModel read_marian(const ForeignFiles& files) {
  const std::string origin = cat("'", files.model, "'");
  if (!files.model.ends_with(".npz"))
    throw Error(cat(origin,
                    ": expected the .npz file of a training by Marian; a .bin file is made from one, so convert "
                    "the .npz"));
  if (files.vocabs.size() != 2)
    throw Error(cat("--vocabs: got ", files.vocabs.size(),
                    " files; expected the SentencePiece models of the source and the target that Marian was trained "
                    "with"));
  std::map<std::string, data::NpzArray> arrays = data::read_npz(files.model);
  const auto options = arrays.find(kOptionsArray);
  if (options == arrays.end())
    throw Error(cat(origin, ": has no '", kOptionsArray, "'; expected a model that Marian saved, with its options"));
  const std::string place = cat(origin, ": ", kOptionsArray);
  std::map<std::string, std::vector<std::string>> values;
  try {
    values = values_of_yaml(options_text(options->second));
  } catch (const Error& error) {
    throw Error(cat(place, ": ", error.what()));
  }
  EncoderDecoderConfig config = parse_marian_options(values, place);
  nn::NamedTensors named = tensors_of(arrays, origin);
  untie_layers(marian_tied_layers(values, place), named);
  if (marian_omits_projections(values)) add_identities(config, named);
  TensorTaker tensors(std::move(named), origin, kOptionsArray);
  const bool is_pre = config.transformer_norm == "pre";
  const auto names = [is_pre](const TensorPlace& tensor) { return marian_names(tensor, is_pre); };
  nn::NamedTensors weights = take_all(tensors, layer_lines(config, names, TensorForm::kTransposed));
  if (marian_has_scaled_swish(values)) use_swish_for_gelu(config, weights);
  read_tables(tensors, config, weights);
  tensors.require_empty();
  VocabPair vocabs = read_vocabs(files);
  return {std::move(config), std::move(weights), std::move(vocabs.source), std::move(vocabs.target)};
}

}  // namespace fovea::models
