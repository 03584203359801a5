#include "fovea/tasks/bert/hugging_face.h"

#include <string>
#include <utility>
#include <vector>

#include "fovea/base/aside_folder.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/foreign_model.h"
#include "fovea/models/formats/tensor_folder.h"
#include "fovea/models/formats/tensor_index.h"
#include "fovea/models/formats/tensor_taker.h"
#include "fovea/tasks/bert/hugging_face_tokenizer.h"
#include "fovea/text/json_values.h"

namespace fovea::bert {
namespace {

using models::TensorLine;
using models::TensorTaker;
using text::Json;
using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

constexpr const char* kConfigJson = "config.json";

// The tensors of a model by our names and BertModel's.
std::vector<TensorLine> tensors_of(const EncoderConfig& config) {
  const int64_t width = config.dim_emb, inner = config.transformer_dim_ffn;
  std::vector<TensorLine> list = {
      {"embeddings.weight", {{"embeddings.word_embeddings.weight", config.dim_vocabs[0]}}, width},
      {"positions.weight", {{"embeddings.position_embeddings.weight", config.max_positions}}, width},
      {"token_types.weight", {{"embeddings.token_type_embeddings.weight", config.token_types}}, width}};
  const auto add = [&](const std::string& own, const std::vector<std::string>& theirs, int64_t rows, int64_t columns) {
    for (const std::string part : {".weight", ".bias"}) {
      TensorLine& line = list.emplace_back(TensorLine{own + part, {}, part == ".bias" ? 0 : columns});
      for (const std::string& name : theirs) line.parts.push_back({name + part, rows});
    }
  };
  add("embedding_norm", {"embeddings.LayerNorm"}, width, 0);
  for (int64_t layer = 0; layer < config.enc_depth; ++layer) {
    const std::string own = cat("layers.", layer, "."), their = cat("encoder.layer.", layer, ".");
    const std::string attention = their + "attention.";
    add(own + "self_attention.qkv", {attention + "self.query", attention + "self.key", attention + "self.value"}, width,
        width);
    add(own + "self_attention.out", {attention + "output.dense"}, width, width);
    add(own + "self_attention_norm", {attention + "output.LayerNorm"}, width, 0);
    add(own + "feed_forward.in", {their + "intermediate.dense"}, inner, width);
    add(own + "feed_forward.out", {their + "output.dense"}, width, inner);
    add(own + "feed_forward_norm", {their + "output.LayerNorm"}, width, 0);
  }
  return list;
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
  const std::string config_path = folder / kConfigJson, weights_path = models::weights_file(folder);
  models::refuse_adapter(folder);
  EncoderConfig config = parse_bert_config(read_text_file(config_path), config_path);
  FolderTokenizer tokenizer = read_tokenizer(folder);
  BertModel model{.config = std::move(config), .vocab = std::move(tokenizer.vocab), .weights = {}, .unused = {}};
  const int64_t rows = model.config.dim_vocabs[0], pieces = model.vocab.size();
  if (pieces > rows)
    throw Error(cat(tokenizer.file, ": got ", pieces, " pieces, but vocab_size is ", rows, "; expected at most that"));
  TensorTaker tensors(plain_names(models::read_tensor_folder(folder)), weights_path, kConfigJson);
  tensors.drop("embeddings.position_ids");  // 0, 1 ..., which old versions wrote
  model.weights = models::take_all(tensors, tensors_of(model.config));
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
  const std::string weights =
      nn::print_safetensors(models::foreign_tensors(model.weights, tensors_of(model.config)), {{"format", "pt"}});
  AsideFolder aside(folder.has_filename() ? folder : folder.parent_path());  // without a slash at the end
  write_tokenizer(model.vocab, model.config.max_positions, aside.path());
  write_file(aside.path() / "model.safetensors", weights);
  write_file(aside.path() / kConfigJson, config_json(model.config).dump(2) + "\n");
  aside.commit();
}

}  // namespace fovea::bert
