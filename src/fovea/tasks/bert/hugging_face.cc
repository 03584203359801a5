#include "fovea/tasks/bert/hugging_face.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/base/aside_folder.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/foreign_model.h"
#include "fovea/models/formats/tensor_folder.h"
#include "fovea/models/formats/tensor_taker.h"
#include "fovea/tasks/bert/hugging_face_tokenizer.h"
#include "fovea/text/json_values.h"

namespace fovea::bert {
namespace {

using models::TensorTaker;
using text::Json;
using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

constexpr const char* kConfigJson = "config.json";

// Hugging Face's name of a tensor of one layer, and ours.
struct LayerTensor {
  std::string_view theirs, ours;
};
constexpr std::array kLayerTensors = {
    LayerTensor{"attention.output.dense", "self_attention.out"},
    LayerTensor{"attention.output.LayerNorm", "self_attention_norm"},
    LayerTensor{"intermediate.dense", "feed_forward.in"},
    LayerTensor{"output.dense", "feed_forward.out"},
    LayerTensor{"output.LayerNorm", "feed_forward_norm"},
};
constexpr std::array<std::string_view, 3> kProjections = {"query", "key", "value"};
constexpr std::array<std::string_view, 2> kParts = {"weight", "bias"};
constexpr std::array kTables = {LayerTensor{"embeddings.word_embeddings.weight", "embeddings.weight"},
                                LayerTensor{"embeddings.position_embeddings.weight", "positions.weight"},
                                LayerTensor{"embeddings.token_type_embeddings.weight", "token_types.weight"},
                                LayerTensor{"embeddings.LayerNorm.weight", "embedding_norm.weight"},
                                LayerTensor{"embeddings.LayerNorm.bias", "embedding_norm.bias"}};

std::string projection_name(int64_t layer, std::string_view projection, std::string_view part) {
  return cat("encoder.layer.", layer, ".attention.self.", projection, ".", part);
}

// The tensors of a file by BertModel's names: without the prefix of models with a head, old names of norms replaced.
nn::NamedTensors plain_names(const nn::NamedTensors& tensors) {
  nn::NamedTensors plain;
  for (const auto& [name, tensor] : tensors) {
    std::string own = name.starts_with("bert.") ? name.substr(5) : name;
    if (own.ends_with(".gamma")) own.replace(own.size() - 5, 5, "weight");
    if (own.ends_with(".beta")) own.replace(own.size() - 4, 4, "bias");
    plain[own] = tensor;
  }
  return plain;
}

std::vector<int64_t> shape_of_layer_tensor(const EncoderConfig& config, std::string_view ours, std::string_view part) {
  const int64_t width = config.dim_emb, inner = config.transformer_dim_ffn;
  const int64_t rows = ours == "feed_forward.in" ? inner : width;
  if (part == "bias" || ours.ends_with("norm")) return {rows};
  return {rows, ours == "feed_forward.out" ? inner : width};
}

void take_layer(TensorTaker& tensors, const EncoderConfig& config, int64_t layer, nn::NamedTensors& weights) {
  const int64_t width = config.dim_emb;
  for (const std::string_view part : kParts) {
    std::vector<at::Tensor> stacked;
    for (const std::string_view projection : kProjections) {
      const auto shape = part == "bias" ? std::vector<int64_t>{width} : std::vector<int64_t>{width, width};
      stacked.push_back(tensors.take(projection_name(layer, projection, part), shape));
    }
    weights[cat("layers.", layer, ".self_attention.qkv.", part)] = at::cat(stacked);
    for (const LayerTensor& tensor : kLayerTensors)
      weights[cat("layers.", layer, ".", tensor.ours, ".", part)] =
          tensors.take(cat("encoder.layer.", layer, ".", tensor.theirs, ".", part),
                       shape_of_layer_tensor(config, tensor.ours, part));
  }
}

std::vector<int64_t> shape_of_table(const EncoderConfig& config, std::string_view ours) {
  if (ours == "embeddings.weight") return {config.dim_vocabs[0], config.dim_emb};
  if (ours == "positions.weight") return {config.max_positions, config.dim_emb};
  if (ours == "token_types.weight") return {config.token_types, config.dim_emb};
  return {config.dim_emb};
}

void require_expressible(const EncoderConfig& config, const text::EncoderVocab& vocab) {
  const auto refuse = [](const std::string& what) {
    throw Error(cat("--to bert: the model has ", what, ", which BERT does not have"));
  };
  if (!vocab.is_word_piece()) refuse("a SentencePiece vocabulary");
  require_writable_tokenizer(vocab);
  if (config.transformer_norm != "post" || config.transformer_norm_kind != "layer")
    refuse(cat(config.transformer_norm, "-norm of the kind ", config.transformer_norm_kind));
  if (!config.embedding_norm || config.token_types == 0) refuse("embeddings without a norm or token types");
  if (config.transformer_positions != "learned") refuse(cat("the positions ", config.transformer_positions));
  if (config.transformer_ffn_activation != "gelu" && config.transformer_ffn_activation != "relu")
    refuse(cat("the activation ", config.transformer_ffn_activation));
  if (config.transformer_heads_kv > 0 && config.transformer_heads_kv != config.transformer_heads)
    refuse("heads of keys that several query heads share");
  if (const std::string spec = models::first_sparse_attention(config); !spec.empty())
    refuse(cat("the attention ", spec));
}

WrittenJson config_json(const EncoderConfig& config) {
  return {{"architectures", {"BertModel"}},
          {"model_type", "bert"},
          {"vocab_size", config.dim_vocabs[0]},
          {"hidden_size", config.dim_emb},
          {"num_hidden_layers", config.enc_depth},
          {"num_attention_heads", config.transformer_heads},
          {"intermediate_size", config.transformer_dim_ffn},
          {"hidden_act", config.transformer_ffn_activation},
          {"hidden_dropout_prob", config.transformer_dropout},
          {"attention_probs_dropout_prob", config.transformer_dropout_attention},
          {"max_position_embeddings", config.max_positions},
          {"type_vocab_size", config.token_types},
          {"layer_norm_eps", config.norm_epsilon > 0 ? config.norm_epsilon : 1e-5},
          {"position_embedding_type", "absolute"},
          {"torch_dtype", "float32"}};
}

nn::NamedTensors hugging_face_tensors(const BertModel& model) {
  nn::NamedTensors tensors;
  for (const LayerTensor& table : kTables)
    tensors[std::string(table.theirs)] = model.weights.at(std::string(table.ours));
  for (int64_t layer = 0; layer < model.config.enc_depth; ++layer) {
    for (const std::string_view part : kParts) {
      const std::vector<at::Tensor> stacked =
          model.weights.at(cat("layers.", layer, ".self_attention.qkv.", part)).chunk(3);
      for (size_t i = 0; i < kProjections.size(); ++i)
        tensors[projection_name(layer, kProjections[i], part)] = stacked[i].contiguous();
      for (const LayerTensor& tensor : kLayerTensors)
        tensors[cat("encoder.layer.", layer, ".", tensor.theirs, ".", part)] =
            model.weights.at(cat("layers.", layer, ".", tensor.ours, ".", part));
    }
  }
  return tensors;
}

}  // namespace

bool is_hugging_face_folder(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kConfigJson);
}

EncoderConfig parse_bert_config(const std::string& json, const std::string& origin) {
  const Json object = text::parse_json_object(json, origin);
  const auto word = [&](const char* name, const char* usual) {
    return text::json_text(object, name, origin).value_or(usual);
  };
  const auto number = [&](const char* name, int64_t most) {
    return text::json_number(object, name, {1, most}, origin);
  };
  text::require_json_word(word("model_type", "bert"), "model_type", {"bert"}, origin);
  text::require_json_word(word("position_embedding_type", "absolute"), "position_embedding_type", {"absolute"}, origin);
  if (text::json_truth(object, "is_decoder", origin).value_or(false))
    throw Error(cat(origin, ": is_decoder: got true, a model that sees no later token; expected an encoder"));
  EncoderConfig config;
  config.transformer_ffn_activation = word("hidden_act", "gelu");
  text::require_json_word(config.transformer_ffn_activation, "hidden_act", {"gelu", "relu"}, origin);
  config.dim_emb = number("hidden_size", 65536);
  config.enc_depth = number("num_hidden_layers", 1000);
  config.transformer_heads = number("num_attention_heads", 1024);
  config.transformer_dim_ffn = number("intermediate_size", 1 << 20);
  config.max_positions = number("max_position_embeddings", 1 << 24);
  config.token_types = number("type_vocab_size", 65536);
  config.dim_vocabs = {number("vocab_size", 1 << 24)};
  config.norm_epsilon = text::json_rate(object, "layer_norm_eps", 1e-12, 1, origin);
  config.transformer_dropout = text::json_rate(object, "hidden_dropout_prob", 0.1, 0.99, origin);
  config.transformer_dropout_attention = text::json_rate(object, "attention_probs_dropout_prob", 0.1, 0.99, origin);
  config.transformer_norm = "post";
  config.transformer_norm_kind = "layer";
  config.transformer_positions = "learned";
  config.embedding_norm = true;
  if (config.dim_emb % config.transformer_heads != 0)
    throw Error(cat(origin, ": hidden_size ", config.dim_emb, " is not a multiple of num_attention_heads ",
                    config.transformer_heads));
  try {
    validate(config);
  } catch (const Error& error) {
    throw Error(cat(origin, ": ", error.what()));
  }
  return config;
}

BertModel read_bert(const std::filesystem::path& folder) {
  const std::string config_path = folder / kConfigJson, weights_path = folder / "model.safetensors";
  EncoderConfig config = parse_bert_config(read_text_file(config_path), config_path);
  FolderTokenizer tokenizer = read_tokenizer(folder);
  BertModel model{.config = std::move(config), .vocab = std::move(tokenizer.vocab), .weights = {}, .unused = {}};
  const int64_t rows = model.config.dim_vocabs[0], pieces = model.vocab.size();
  if (pieces > rows)
    throw Error(cat(tokenizer.file, ": got ", pieces, " pieces, but vocab_size is ", rows, "; expected at most that"));
  if (!std::filesystem::exists(weights_path) && !std::filesystem::exists(folder / "model.safetensors.index.json"))
    throw Error(cat(weights_path, " is missing; save the model with safe_serialization=True"));
  TensorTaker tensors(plain_names(models::read_tensor_folder(folder)), weights_path, kConfigJson);
  tensors.drop("embeddings.position_ids");  // 0, 1 ..., which old versions wrote
  for (const LayerTensor& table : kTables)
    model.weights[std::string(table.ours)] =
        tensors.take(std::string(table.theirs), shape_of_table(model.config, table.ours));
  for (int64_t layer = 0; layer < model.config.enc_depth; ++layer)
    take_layer(tensors, model.config, layer, model.weights);
  // Rows that fill the table up to a round number belong to no piece.
  model.config.dim_vocabs = {pieces};
  at::Tensor& table = model.weights["embeddings.weight"];
  table = table.narrow(0, 0, pieces).clone();
  model.unused = tensors.rest();
  return model;
}

nn::Checkpoint checkpoint_of(const BertModel& model) {
  nn::Checkpoint checkpoint;
  checkpoint.identity = nn::identity_of(kTask, model.config, model.vocab.files());
  checkpoint.model = model.weights;
  return checkpoint;
}

void write_bert(const BertModel& model, const std::filesystem::path& folder) {
  require_expressible(model.config, model.vocab);
  if (std::filesystem::exists(folder))
    throw Error(cat("--output: '", folder.string(), "' exists already; name a new folder"));
  const std::string weights = nn::print_safetensors(hugging_face_tensors(model), {{"format", "pt"}});
  AsideFolder aside(folder.has_filename() ? folder : folder.parent_path());  // without a slash at the end
  write_tokenizer(model.vocab, model.config.max_positions, aside.path());
  write_file(aside.path() / "model.safetensors", weights);
  write_file(aside.path() / kConfigJson, config_json(model.config).dump(2) + "\n");
  aside.commit();
}

}  // namespace fovea::bert
