#include "fovea/models/formats/hugging_face.h"

#include <ATen/Functions.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/foreign_names.h"
#include "fovea/models/formats/hugging_face_files.h"
#include "fovea/models/formats/m2m100_vocabulary.h"
#include "fovea/models/formats/piece_ids.h"
#include "fovea/models/formats/tensor_folder.h"
#include "fovea/spec/positions.h"
#include "fovea/text/json_values.h"

namespace fovea::models {
namespace {

using text::Json;
using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";

std::vector<std::string> hugging_face_names(const TensorPlace& place) {
  static const std::map<std::string_view, std::string_view> kBlocks = {
      {"self_attention", "self_attn"}, {"cross_attention", "encoder_attn"}, {"feed_forward", "final"}};
  const std::string side = cat("model.", place.in_decoder ? "decoder" : "encoder", ".");
  const std::string_view part = place.is_bias ? ".bias" : ".weight";
  if (place.layer < 0) return {cat(side, "layer_norm", part)};
  const std::string base = cat(side, "layers.", place.layer, ".");
  const std::string_view block = kBlocks.at(place.block);
  if (place.projections.empty()) return {cat(base, block, "_layer_norm", part)};
  if (place.block == "feed_forward") return {cat(base, place.projections == "in" ? "fc1" : "fc2", part)};
  if (place.projections == "o") return {cat(base, block, ".out_proj", part)};
  std::vector<std::string> names;
  for (const char projection : place.projections) names.push_back(cat(base, block, ".", projection, "_proj", part));
  return names;
}

// A second copy of a tied table, or a table of positions that transformers computes, if the file holds one.
void drop_copy(TensorTaker& tensors, const std::string& name, const at::Tensor& of, const std::string& origin) {
  if (!tensors.has(name)) return;
  const at::Tensor copy = tensors.take(name, of.sizes().vec());
  if (!copy.equal(of))
    throw Error(cat(origin, ": '", name, "' differs from the table that config.json says it is tied to"));
}

void drop_positions(TensorTaker& tensors, const EncoderDecoderConfig& config, const Json& json,
                    const std::string& origin) {
  for (const char* side : {"encoder", "decoder"}) {
    const std::string name = cat("model.", side, ".embed_positions.weight");
    if (!tensors.has(name)) continue;
    const int64_t rows = text::json_number(json, "max_position_embeddings", {1, 1 << 24}, origin);
    const std::string found = positions_of_table(tensors.take(name, {rows, config.dim_emb}), cat(origin, ": ", name));
    if (found != config.transformer_positions)
      throw Error(cat(origin, ": ", name, ": holds the positions ", found, "; expected ", config.transformer_positions,
                      ", as transformers computes them"));
  }
}

ModelTables take_tables(TensorTaker& tensors, const EncoderDecoderConfig& config, const std::string& origin) {
  const int64_t width = config.dim_emb, source = config.dim_vocabs.at(0), target = config.dim_vocabs.at(1);
  ModelTables tables;
  if (config.tied_embeddings_all) tensors.stand_in("model.shared.weight", {"lm_head.weight"});
  if (config.tied_embeddings_all || config.tied_embeddings_src)
    tensors.stand_in("model.shared.weight", {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"});
  if (config.tied_embeddings) tensors.stand_in("model.decoder.embed_tokens.weight", {"lm_head.weight"});
  if (config.tied_embeddings_all || config.tied_embeddings_src) {
    tables.source = tables.target = tensors.take("model.shared.weight", {source, width});
    for (const char* side : {"encoder", "decoder"})
      drop_copy(tensors, cat("model.", side, ".embed_tokens.weight"), tables.source, origin);
  } else {
    tables.source = tensors.take("model.encoder.embed_tokens.weight", {source, width});
    tables.target = tensors.take("model.decoder.embed_tokens.weight", {target, width});
  }
  if (config.tied_embeddings_all || config.tied_embeddings) {
    drop_copy(tensors, "lm_head.weight", tables.target, origin);
  } else {
    tables.output = tensors.take("lm_head.weight", {target, width});
  }
  if (config.output_bias == "learned") tables.bias = tensors.take("final_logits_bias", {1, target}).flatten();
  return tables;
}

VocabPair folder_vocabs(const std::filesystem::path& folder, bool separate) {
  const auto list = [&](const char* name) { return read_piece_list((folder / name).string()); };
  const auto vocab = [&](const char* name, const std::vector<std::string>& pieces) {
    return ordered_vocab((folder / name).string(), pieces);
  };
  const std::vector<std::string> source = list("vocab.json");
  return {vocab("source.spm", source), vocab("target.spm", separate ? list("target_vocab.json") : source)};
}

// The decoder begins with the vector of the padding, which must be zeros.
void require_zero_start(const Json& json, const ForeignModel& model, const std::string& origin) {
  const text::JsonRange pieces = {0, model.config.dim_vocabs.at(1) - 1};
  const int64_t start = text::json_number(json, "decoder_start_token_id", pieces, origin);
  if (tables_of(model).target[start].count_nonzero().item<int64_t>() != 0)
    throw Error(cat(origin, ": decoder_start_token_id: got ", start,
                    ", whose vector is not zeros; expected the padding, as in models that came from Marian"));
  const int64_t end = text::json_number(json, "eos_token_id", pieces, origin);
  if (end != model.target.eos())
    throw Error(cat(origin, ": eos_token_id: got ", end, "; expected ", model.target.eos(), ", the number of </s>"));
}

// M2M100ForConditionalGeneration: norms before the blocks, positions that begin behind the padding's number, no bias of
// the output layer, and a decoder that reads </s> and then the token of its language.
void read_m2m100(const Json& json, const std::string& origin, EncoderDecoderConfig& config) {
  const auto require = [&](const char* name, bool expected) {
    if (text::json_truth(json, name, origin).value_or(true) != expected)
      throw Error(cat(origin, ": ", name, ": got ", expected ? "false" : "true", "; expected ",
                      expected ? "true" : "false", ", as in M2M100 and NLLB"));
  };
  require("scale_embedding", true);
  require("tie_word_embeddings", true);
  // The vector at the padding's number is zeros; a text has those behind it.
  const int64_t padding =
      text::find_json(json, "pad_token_id") == nullptr ? 1 : text::json_number(json, "pad_token_id", {0, 1}, origin);
  Sinusoidal positions;
  positions.first = static_cast<double>(padding + 1);
  config.transformer_positions = print({positions});
  config.transformer_norm = "pre";
  config.decoder_start = "eos";
  config.output_bias = "none";
  config.language_marks = "both";
}

// MarianMTModel: norms behind the blocks, and a decoder that begins with zeros.
void read_marian_kind(const Json& json, const std::string& origin, EncoderDecoderConfig& config) {
  const auto truth = [&](const char* name, bool usual) { return text::json_truth(json, name, origin).value_or(usual); };
  if (!truth("scale_embedding", false))
    throw Error(cat(origin, ": scale_embedding: got false; expected true, as in models that came from Marian"));
  if (truth("normalize_before", false) || truth("add_final_layer_norm", false) || truth("normalize_embedding", false))
    throw Error(cat(origin,
                    ": normalize_before, add_final_layer_norm, normalize_embedding: expected false, as "
                    "MarianMTModel computes"));
  if (!truth("static_position_embeddings", true))
    throw Error(cat(origin, ": static_position_embeddings: got false; expected computed positions"));
  config.transformer_positions = "sinusoidal(first=0,paper)";
  config.transformer_norm = "post";
  config.decoder_start = "zeros";
}

// Throws an Error unless the decoder begins with </s>.
void require_end_start(const Json& json, const text::Vocab& vocab, const std::string& origin) {
  for (const char* name : {"decoder_start_token_id", "eos_token_id"}) {
    if (text::find_json(json, name) == nullptr) continue;
    const int64_t got = text::json_number(json, name, {0, vocab.size() - 1}, origin);
    if (got != vocab.eos())
      throw Error(cat(origin, ": ", name, ": got ", got, "; expected ", vocab.eos(), ", the number of </s>"));
  }
}

bool is_m2m100(const EncoderDecoderConfig& config) { return config.language_marks == "both"; }

ForeignModel read_m2m100_folder(EncoderDecoderConfig config, const Json& json, const std::filesystem::path& folder) {
  const std::string config_path = folder / kConfig, weights_path = weights_file(folder);
  text::Vocab vocab = read_m2m100_vocabulary(folder, config.dim_vocabs.at(0));
  require_end_start(json, vocab, config_path);
  ForeignModel model = {std::move(config), {}, vocab, vocab};
  TensorTaker tensors(read_tensor_folder(folder), weights_path, kConfig);
  model.weights = take_all(tensors, layer_lines(model.config, hugging_face_names));
  add_tables(take_tables(tensors, model.config, weights_path), model);
  // Positions that transformers computes, and numbers of versions.
  for (const std::string side : {"model.encoder.", "model.decoder."})
    for (const char* name : {"embed_positions.weights", "embed_positions._float_tensor", "version"})
      tensors.drop(side + name);
  tensors.require_empty();
  return model;
}

void require_m2m100_architecture(const EncoderDecoderConfig& config) {
  require_architecture(config, kM2m100Architecture);
  const auto refuse = [](const std::string& what) { refuse_architecture(kM2m100Architecture, what); };
  const PositionSchemes positions = parse_positions(config.transformer_positions);
  const auto sinusoidal = find_scheme<Sinusoidal>(positions);
  if (positions.size() != 1 || !sinusoidal || sinusoidal->paper || sinusoidal->first < 1)
    refuse(cat("the positions ", config.transformer_positions));
  if (config.decoder_start != "eos") refuse("a decoder that begins with zeros");
  if (config.output_bias != "none") refuse("a bias of the output layer (--output-bias)");
  if (!config.tied_embeddings_all) refuse("more than one table of embeddings (--tied-embeddings-all)");
}

void write_m2m100_folder(const ForeignModel& model, const std::filesystem::path& folder) {
  const EncoderDecoderConfig& config = model.config;
  require_m2m100_architecture(config);
  const auto padding =
      static_cast<int64_t>(find_scheme<Sinusoidal>(parse_positions(config.transformer_positions))->first) - 1;
  if (model.target.piece(padding) != "<pad>")
    throw Error(cat("--to huggingface: the piece of the number ", padding, " is '", model.target.piece(padding),
                    "'; expected <pad>, behind which positions begin in M2M100ForConditionalGeneration"));
  write_m2m100_vocabulary(model.target, folder);
  nn::NamedTensors tensors = foreign_tensors(model.weights, layer_lines(config, hugging_face_names));
  tensors["model.shared.weight"] = tables_of(model).target;
  write_file(folder / kWeights, nn::print_safetensors(tensors, {{"format", "pt"}}));
  const std::string& activation = config.transformer_ffn_activation;
  const int64_t end = model.target.eos(), begin = model.target.find("<s>").value_or(end);
  const WrittenJson json = {{"architectures", {"M2M100ForConditionalGeneration"}},
                            {"model_type", "m2m_100"},
                            {"is_encoder_decoder", true},
                            {"vocab_size", config.dim_vocabs.at(1)},
                            {"d_model", config.dim_emb},
                            {"encoder_layers", config.enc_depth},
                            {"decoder_layers", config.dec_depth},
                            {"encoder_attention_heads", config.transformer_heads},
                            {"decoder_attention_heads", config.transformer_heads},
                            {"encoder_ffn_dim", config.transformer_dim_ffn},
                            {"decoder_ffn_dim", config.transformer_dim_ffn},
                            {"activation_function", activation == "swish" ? "silu" : activation},
                            {"dropout", config.transformer_dropout},
                            {"attention_dropout", config.transformer_dropout_attention},
                            {"activation_dropout", config.transformer_dropout_ffn},
                            {"max_position_embeddings", 1024},
                            {"scale_embedding", true},
                            {"tie_word_embeddings", true},
                            {"pad_token_id", padding},
                            {"bos_token_id", begin},
                            {"eos_token_id", end},
                            {"decoder_start_token_id", end},
                            {"torch_dtype", "float32"}};
  write_file(folder / kConfig, json.dump(2) + "\n");
  const WrittenJson generation = {{"pad_token_id", padding},
                                  {"bos_token_id", begin},
                                  {"eos_token_id", end},
                                  {"decoder_start_token_id", end},
                                  {"max_length", 200}};
  write_file(folder / "generation_config.json", generation.dump(2) + "\n");
}

}  // namespace

EncoderDecoderConfig parse_hugging_face_config(const std::string& text, const std::string& origin) {
  const Json json = text::parse_json_object(text, origin);
  const auto word = [&](const char* name, const char* usual) {
    return text::json_text(json, name, origin).value_or(usual);
  };
  const auto number = [&](const char* name, int64_t most) { return text::json_number(json, name, {1, most}, origin); };
  const auto truth = [&](const char* name, bool usual) { return text::json_truth(json, name, origin).value_or(usual); };
  const std::string kind = word("model_type", "marian");
  text::require_json_word(kind, "model_type", {"marian", "m2m_100"}, origin);
  EncoderDecoderConfig config;
  config.dim_emb = number("d_model", 65536);
  config.enc_depth = number("encoder_layers", 1000);
  config.dec_depth = number("decoder_layers", 1000);
  config.transformer_heads = number("encoder_attention_heads", 1024);
  config.transformer_dim_ffn = number("encoder_ffn_dim", 1 << 20);
  const auto require_same = [&](const char* name, int64_t of_encoder) {
    const int64_t got = number(name, 1 << 20);
    if (got != of_encoder)
      throw Error(cat(origin, ": ", name, ": got ", got, "; expected the encoder's, ", of_encoder));
  };
  require_same("decoder_attention_heads", config.transformer_heads);
  require_same("decoder_ffn_dim", config.transformer_dim_ffn);
  kind == "marian" ? read_marian_kind(json, origin, config) : read_m2m100(json, origin, config);
  config.transformer_ffn_activation = word("activation_function", kind == "marian" ? "swish" : "relu");
  if (config.transformer_ffn_activation == "silu") config.transformer_ffn_activation = "swish";
  text::require_json_word(config.transformer_ffn_activation, "activation_function", {"relu", "gelu", "swish"}, origin);
  config.transformer_dropout = text::json_rate(json, "dropout", 0.1, 0.99, origin);
  config.transformer_dropout_attention = text::json_rate(json, "attention_dropout", 0, 0.99, origin);
  config.transformer_dropout_ffn = text::json_rate(json, "activation_dropout", 0, 0.99, origin);
  config.transformer_norm_kind = "layer";
  config.norm_epsilon = 1e-5;
  const int64_t source = number("vocab_size", 1 << 24);
  const int64_t target =
      text::find_json(json, "decoder_vocab_size") == nullptr ? source : number("decoder_vocab_size", 1 << 24);
  config.dim_vocabs = {source, target};
  const bool shared = truth("share_encoder_decoder_embeddings", true), tied = truth("tie_word_embeddings", true);
  config.tied_embeddings_all = shared && tied;
  config.tied_embeddings_src = shared && !tied;
  config.tied_embeddings = !shared && tied;
  if (shared && source != target)
    throw Error(cat(origin, ": decoder_vocab_size: got ", target, "; expected vocab_size, ", source,
                    ", because both sides share their table"));
  return config;
}

ForeignModel read_hugging_face(const ForeignFiles& files) {
  const std::filesystem::path folder = files.model;
  const std::string config_path = folder / kConfig, weights_path = weights_file(folder);
  require_file(config_path, "model");
  const std::string text = read_text_file(config_path);
  EncoderDecoderConfig config = parse_hugging_face_config(text, config_path);
  const Json json = text::parse_json_object(text, config_path);
  if (is_m2m100(config)) return read_m2m100_folder(std::move(config), json, folder);
  VocabPair vocabs = folder_vocabs(folder, !config.tied_embeddings_all && !config.tied_embeddings_src);
  ForeignModel model = {std::move(config), {}, std::move(vocabs.source), std::move(vocabs.target)};
  TensorTaker tensors(read_tensor_folder(folder), weights_path, kConfig);
  model.weights = take_all(tensors, layer_lines(model.config, hugging_face_names));
  add_tables(take_tables(tensors, model.config, weights_path), model);
  drop_positions(tensors, model.config, json, weights_path);
  tensors.require_empty();
  require_zero_start(json, model, config_path);
  return model;
}

void write_hugging_face(const ForeignModel& model, const std::filesystem::path& folder) {
  if (is_m2m100(model.config)) return write_m2m100_folder(model, folder);
  require_marian_architecture(model.config);
  const PaddedModel padded = with_padding(model);
  nn::NamedTensors tensors = foreign_tensors(model.weights, layer_lines(model.config, hugging_face_names));
  const bool shared = padded.tables.source.is_same(padded.tables.target);
  if (shared) {
    tensors["model.shared.weight"] = padded.tables.source;
  } else {
    tensors["model.encoder.embed_tokens.weight"] = padded.tables.source;
    tensors["model.decoder.embed_tokens.weight"] = padded.tables.target;
  }
  if (padded.tables.output.defined()) tensors["lm_head.weight"] = padded.tables.output;
  tensors["final_logits_bias"] = padded.tables.bias.unsqueeze(0);
  write_file(folder / kWeights, nn::print_safetensors(tensors, {{"format", "pt"}}));
  write_file(folder / kConfig, hugging_face_config(model.config, padded));
  write_vocabulary_files(model, padded, folder);
}

}  // namespace fovea::models
