#include "fovea/models/formats/ctranslate2.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/ctranslate2_file.h"
#include "fovea/models/formats/foreign_names.h"
#include "fovea/models/formats/piece_ids.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/positions.h"
#include "fovea/text/json_values.h"

namespace fovea::models {
namespace {

using text::Json;
using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

// Activations that our models have, with their numbers.
struct ActivationNumber {
  int64_t number;
  std::string_view name;
};
constexpr std::array kActivations = {ActivationNumber{0, "relu"}, ActivationNumber{2, "swish"},
                                     ActivationNumber{3, "gelu"}};
constexpr double kSigmoidGelu = 4;  // x sigmoid(1.702 x)
// Scalars of each side that a configuration takes over or that do not matter to our models.
constexpr std::array<std::string_view, 10> kKnownScalars = {"num_heads",
                                                            "pre_norm",
                                                            "activation",
                                                            "scale_embeddings",
                                                            "start_from_zero_embedding",
                                                            "embeddings_merge",
                                                            "alignment_heads",
                                                            "alignment_layer",
                                                            "alibi_use_positive_positions",
                                                            "scale_alibi"};
constexpr double kUsualEpsilon = 1e-5;  // of norms, where config.json gives none
constexpr int64_t kWrittenPositions = 1024;

std::vector<std::string> ctranslate2_names(const TensorPlace& place) {
  const std::string side = place.in_decoder ? "decoder" : "encoder";
  const std::string_view norm = place.is_bias ? "/layer_norm/beta" : "/layer_norm/gamma";
  if (place.layer < 0) return {cat(side, norm)};
  std::string_view block = place.block;
  if (block == "cross_attention") block = "attention";
  if (block == "feed_forward") block = "ffn";
  const std::string base = cat(side, "/layer_", place.layer, "/", block);
  if (place.projections.empty()) return {cat(base, norm)};
  int number = 0;
  if (block == "attention") number = place.projections == "q" ? 0 : (place.projections == "kv" ? 1 : 2);
  if (block == "self_attention") number = place.projections == "qkv" ? 0 : 1;
  if (block == "ffn") number = place.projections == "in" ? 0 : 1;
  return {cat(base, "/linear_", number, place.is_bias ? "/bias" : "/weight")};
}

// Both orders are those of the numbers in the file.
constexpr std::array kTypes = {at::kFloat, at::kChar, at::kShort, at::kInt, at::kHalf, at::kBFloat16};

// A copy of a variable.
at::Tensor tensor_of(const CTranslate2Variable& variable) {
  const at::Tensor tensor = at::empty(variable.shape, kTypes.at(static_cast<size_t>(variable.type)));
  std::memcpy(tensor.mutable_data_ptr(), variable.bytes.data(), variable.bytes.size());
  return tensor;
}
// `tensor` is contiguous, of one of the types, and lives as long as the variable is read.
CTranslate2Variable variable_of(const at::Tensor& tensor) {
  const auto type = std::ranges::find(kTypes, tensor.scalar_type()) - kTypes.begin();
  return {tensor.sizes().vec(),
          static_cast<CTranslate2Type>(type),
          {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

// Variables with aliases as entries of their own, quantised weights as float32. Scalars go into `scalars`.
class Variables {
 public:
  Variables(CTranslate2File file, std::string origin) : origin_(std::move(origin)), file_(std::move(file)) {
    for (const auto& [name, variable] : file_.variables) {
      if (name.ends_with("weight_scale")) continue;
      const at::Tensor tensor = tensor_of(variable);
      if (tensor.dim() == 0) {
        scalars_[name] = tensor.item<double>();
        if (variable.type == CTranslate2Type::kInt8) flags_.insert(name);
      } else {
        tensors_[name] = plain(name, tensor);
      }
    }
    for (const auto& [name, of] : file_.aliases) {
      if (const auto found = tensors_.find(of); found != tensors_.end()) tensors_[name] = found->second;
      if (const auto found = scalars_.find(of); found != scalars_.end()) scalars_[name] = found->second;
      if (flags_.contains(of)) flags_.insert(name);
    }
  }

  std::optional<double> scalar(const std::string& name) const {
    const auto found = scalars_.find(name);
    return found == scalars_.end() ? std::nullopt : std::optional(found->second);
  }
  // A scalar that both sides have, with the same value.
  double of_both(const std::string& name, double usual) const {
    const double encoder = scalar("encoder/" + name).value_or(usual),
                 decoder = scalar("decoder/" + name).value_or(usual);
    if (encoder != decoder)
      throw Error(cat(origin_, ": ", name, ": the encoder has ", shortest(encoder), ", the decoder ", shortest(decoder),
                      "; expected one value for both"));
    return encoder;
  }
  // The factor of a side's embeddings, for which a flag of one byte may stand: the root of the width, or 1.
  double embedding_factor(const std::string& side, double root) const {
    const std::string name = side + "/scale_embeddings";
    const double value = scalar(name).value_or(root);
    if (!flags_.contains(name)) return value;
    return value != 0 ? root : 1;
  }
  // Other scalars change what a model computes: scale_outputs, final_logit_softcapping, a layer's queries_scale, ...
  void require_known_scalars() const {
    for (const auto& [name, value] : scalars_)
      if (value != 0 &&
          std::ranges::find(kKnownScalars, std::string_view(name).substr(name.find('/') + 1)) == kKnownScalars.end())
        throw Error(cat(origin_, ": ", name, ": got ", shortest(value), "; expected 0, or none"));
  }
  const nn::NamedTensors& tensors() const { return tensors_; }
  const at::Tensor* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  int64_t layers(const std::string& side) const {
    int64_t count = 0;
    while (tensors_.contains(cat(side, "/layer_", count, "/self_attention/linear_0/weight"))) ++count;
    return count;
  }

 private:
  at::Tensor plain(const std::string& name, const at::Tensor& tensor) const {
    if (tensor.is_floating_point()) return tensor.to(at::kFloat);
    const auto scale = file_.variables.find(name + "_scale");
    if (scale == file_.variables.end())
      throw Error(cat(origin_, ": '", name, "' holds whole numbers without '", name, "_scale'; expected their scale"));
    const at::Tensor factor = tensor_of(scale->second).to(at::kFloat);
    if (factor.dim() > 1 || (factor.dim() == 1 && factor.size(0) != tensor.size(0)))
      throw Error(cat(origin_, ": '", name, "_scale' has the shape ", factor.sizes(), "; expected one for each row"));
    return tensor.to(at::kFloat) / (factor.dim() == 1 ? factor.unsqueeze(1) : factor);
  }

  std::string origin_;
  CTranslate2File file_;
  nn::NamedTensors tensors_;
  std::map<std::string, double> scalars_;
  std::set<std::string> flags_;  // scalars of one byte
};

// A table of the source has the name embeddings or embeddings_0.
std::string source_table_name(const Variables& variables) {
  return variables.find("encoder/embeddings_0/weight") != nullptr ? "encoder/embeddings_0/weight"
                                                                  : "encoder/embeddings/weight";
}

bool has_sigmoid_gelu(const Variables& variables) { return variables.of_both("activation", 0) == kSigmoidGelu; }

std::string activation_of(const Variables& variables, const std::string& origin) {
  if (has_sigmoid_gelu(variables)) return "swish";  // with scaled weights
  const double number = variables.of_both("activation", 0);
  const auto* activation = std::ranges::find(kActivations, static_cast<int64_t>(number), &ActivationNumber::number);
  if (activation == kActivations.end())
    throw Error(cat(origin, ": activation: got ", shortest(number),
                    "; expected 0 (relu), 2 (swish), 3 (gelu) or 4 (x sigmoid(1.702 x))"));
  return std::string(activation->name);
}

// Both sides have the same table, if not under the same name.
std::string positions_of(const Variables& variables, int64_t width, const std::string& origin) {
  const std::string name = "encoder/position_encodings/encodings";
  const at::Tensor* positions = variables.find(name);
  if (positions == nullptr || positions->dim() != 2 || positions->size(1) != width)
    throw Error(cat(origin, ": lacks ", name, "; expected a table of sinusoidal positions"));
  const at::Tensor* others = variables.find("decoder/position_encodings/encodings");
  if (others == nullptr || !others->equal(*positions))
    throw Error(cat(origin,
                    ": decoder/position_encodings/encodings: got another table than the encoder's, or none; "
                    "expected one for both"));
  return positions_of_table(*positions, cat(origin, ": ", name));
}

EncoderDecoderConfig config_of(const Variables& variables, const Json& json, const std::string& origin) {
  const at::Tensor* source = variables.find(source_table_name(variables));
  const at::Tensor* target = variables.find("decoder/embeddings/weight");
  const at::Tensor* inner = variables.find("encoder/layer_0/ffn/linear_0/weight");
  for (const at::Tensor* table : {source, target, inner})
    if (table == nullptr || table->dim() != 2) throw Error(cat(origin, ": lacks the tables of embeddings or a layer"));
  EncoderDecoderConfig config;
  config.dim_emb = source->size(1);
  config.dim_vocabs = {source->size(0), target->size(0)};
  config.transformer_dim_ffn = inner->size(0);
  config.enc_depth = variables.layers("encoder");
  config.dec_depth = variables.layers("decoder");
  config.transformer_heads = static_cast<int64_t>(variables.of_both("num_heads", 8));
  config.transformer_norm = variables.of_both("pre_norm", 1) != 0 ? "pre" : "post";
  config.transformer_norm_kind = "layer";
  config.transformer_ffn_activation = activation_of(variables, origin);
  const double root = std::sqrt(static_cast<double>(config.dim_emb));
  for (const char* side : {"encoder", "decoder"})
    if (const double factor = variables.embedding_factor(side, root); std::abs(factor - root) > 1e-4 * root)
      throw Error(cat(origin, ": ", side, "/scale_embeddings: got the factor ", shortest(factor),
                      "; expected the root of the width, ", shortest(root)));
  variables.require_known_scalars();
  config.decoder_start = variables.scalar("decoder/start_from_zero_embedding").value_or(0) != 0 ? "zeros" : "eos";
  config.transformer_positions = positions_of(variables, config.dim_emb, origin);
  const double epsilon = text::json_rate(json, "layer_norm_epsilon", 0, 1, origin);
  config.norm_epsilon = epsilon > 0 ? epsilon : kUsualEpsilon;
  return config;
}

ModelTables take_tables(TensorTaker& tensors, const Variables& variables, const EncoderDecoderConfig& config) {
  const int64_t width = config.dim_emb, source = config.dim_vocabs.at(0), target = config.dim_vocabs.at(1);
  ModelTables tables;
  tables.source = tensors.take(source_table_name(variables), {source, width});
  tables.target = tensors.take("decoder/embeddings/weight", {target, width});
  tables.output = tensors.take("decoder/projection/weight", {target, width});
  tables.bias =
      tensors.has("decoder/projection/bias") ? tensors.take("decoder/projection/bias", {target}) : at::zeros({target});
  if (source == target && tables.source.equal(tables.target)) tables.source = tables.target;
  if (tables.output.equal(tables.target)) tables.output.reset();
  return tables;
}

// Whether the folder has the files of transformers' MarianTokenizer, which adds </s> to the source itself.
bool has_marian_tokenizer(const std::filesystem::path& folder) {
  const std::string path = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) return false;
  const Json json = text::parse_json_object(read_text_file(path), path);
  return text::json_text(json, "tokenizer_class", path).value_or("") == "MarianTokenizer";
}

// A sentence of our models ends with </s>, and a decoder begins with that token or with zeros.
void require_usual_ends(const Json& json, const EncoderDecoderConfig& config, const ForeignFiles& files,
                        const std::string& origin) {
  const auto require = [&](const char* name, const std::string& expected, const char* advice = "") {
    const Json* const found = text::find_json(json, name);
    const std::string got = found == nullptr ? "null" : text::shown_json(*found);
    if (got != expected) throw Error(cat(origin, ": ", name, ": got ", got, "; expected ", expected, advice));
  };
  require("add_source_bos", "false");
  if (!files.source_eos && !has_marian_tokenizer(files.model))
    require("add_source_eos", "true",
            "; give --source-eos if the tokeniser of the model adds the </s>, as in folders of "
            "ct2-transformers-converter");
  require("eos_token", "\"</s>\"");
  if (config.decoder_start == "eos") require("decoder_start_token", "\"</s>\"");
}

VocabPair folder_vocabs(const ForeignFiles& files) {
  const std::filesystem::path folder = files.model;
  std::vector<std::string> models = files.vocabs;
  if (models.empty()) models = {folder / "source.spm", folder / "target.spm"};
  if (models.size() != 2 || !std::filesystem::exists(models[0]) || !std::filesystem::exists(models[1]))
    throw Error(cat("--vocabs: '", files.model,
                    "' does not say how text is split; expected the SentencePiece models of "
                    "the source and the target"));
  const bool shared = std::filesystem::exists(folder / "shared_vocabulary.json");
  const auto pieces = [&](const char* name) {
    return read_piece_list((folder / (shared ? "shared_vocabulary.json" : name)).string());
  };
  return {ordered_vocab(models[0], pieces("source_vocabulary.json")),
          ordered_vocab(models[1], pieces("target_vocabulary.json"))};
}

void add_scalars(const EncoderDecoderConfig& config, nn::NamedTensors& variables) {
  const auto activation = std::ranges::find(kActivations, config.transformer_ffn_activation, &ActivationNumber::name);
  const auto byte = [](int64_t value) { return at::full({}, value, at::kChar); };
  for (const std::string side : {"encoder/", "decoder/"}) {
    variables[side + "num_heads"] = at::full({}, config.transformer_heads, at::kShort);
    variables[side + "pre_norm"] = byte(config.transformer_norm == "pre" ? 1 : 0);
    variables[side + "activation"] = byte(activation->number);
    variables[side + "scale_embeddings"] = at::full({}, std::sqrt(static_cast<double>(config.dim_emb)), at::kFloat);
  }
  variables["encoder/embeddings_merge"] = byte(0);
  variables["encoder/multi_query_attention"] = byte(0);
  for (const char* name : {"alibi", "alibi_use_positive_positions", "scale_alibi"})
    variables[cat("decoder/", name)] = byte(0);
  variables["decoder/start_from_zero_embedding"] = byte(config.decoder_start == "zeros" ? 1 : 0);
  variables["decoder/alignment_heads"] = at::full({}, 1, at::kShort);
  variables["decoder/alignment_layer"] = at::full({}, -1, at::kShort);
}

// Translations of ours never have <pad>. CTranslate2 knows no such piece, so its bias makes it impossible there.
at::Tensor bias_without_padding(const ForeignModel& model, at::Tensor bias) {
  const std::vector<int64_t> never = translation::never_written(model.target, true);
  if (!never.empty()) bias = bias.clone();
  for (const int64_t id : never) bias[id] = kImpossibleLogit;
  return bias;
}

void require_expressible(const EncoderDecoderConfig& config) {
  const auto refuse = [](const std::string& what) {
    throw Error(cat("--to ctranslate2: the model has ", what, ", which CTranslate2 does not have"));
  };
  if (config.transformer_norm_kind != "layer") refuse(cat("norms of the kind ", config.transformer_norm_kind));
  if (std::ranges::find(kActivations, config.transformer_ffn_activation, &ActivationNumber::name) == kActivations.end())
    refuse(cat("the activation ", config.transformer_ffn_activation));
  const PositionSchemes schemes = parse_positions(config.transformer_positions);
  if (schemes.size() != 1 || !find_scheme<Sinusoidal>(schemes))
    refuse(cat("the positions ", config.transformer_positions));
  if (config.transformer_heads_kv > 0 && config.transformer_heads_kv != config.transformer_heads)
    refuse("heads of keys that several query heads share");
  if (config.clause_flags) refuse("clause flags in its vocabulary");
  if (config.transformer_norm == "sandwich") refuse("norms before and behind each block");
  if (config.language_marks == "both") refuse("marks of languages on both sides, which we call otherwise");
  if (has_recurrent_decoder(config)) refuse("an SSRU in its decoder");
  if (const std::string spec = first_sparse_attention(config); !spec.empty()) refuse(cat("the attention ", spec));
}

void write_vocabularies(const ForeignModel& model, const std::filesystem::path& folder) {
  const auto json = [](const text::Vocab& vocab) {
    WrittenJson pieces = WrittenJson::array();
    for (int64_t id = 0; id < vocab.size(); ++id) pieces.push_back(vocab.piece(id));
    return pieces.dump(2, ' ', false, WrittenJson::error_handler_t::replace) + "\n";
  };
  const std::string source = json(model.source), target = json(model.target);
  if (source == target) {
    write_file(folder / "shared_vocabulary.json", source);
  } else {
    write_file(folder / "source_vocabulary.json", source);
    write_file(folder / "target_vocabulary.json", target);
  }
  write_file(folder / "source.spm", model.source.bytes());
  write_file(folder / "target.spm", model.target.bytes());
}

}  // namespace

ForeignModel read_ctranslate2(const ForeignFiles& files) {
  const std::filesystem::path folder = files.model;
  const std::string weights_path = folder / "model.bin", config_path = folder / "config.json";
  require_file(weights_path, "model");
  const std::string bytes = read_file(weights_path);
  CTranslate2File file = parse_ctranslate2(bytes, weights_path);
  if (file.specification != "TransformerSpec")
    throw Error(cat(weights_path, ": is a ", file.specification, "; expected a TransformerSpec, a translation model"));
  require_file(config_path, "model");
  const Json json = text::parse_json_object(read_text_file(config_path), config_path);
  const Variables variables(std::move(file), weights_path);
  EncoderDecoderConfig config = config_of(variables, json, weights_path);
  require_usual_ends(json, config, files, config_path);
  VocabPair vocabs = folder_vocabs(files);
  ForeignModel model = {std::move(config), {}, std::move(vocabs.source), std::move(vocabs.target)};
  TensorTaker tensors(variables.tensors(), weights_path, "the table of embeddings");
  for (const char* side : {"encoder", "decoder"}) tensors.drop(cat(side, "/position_encodings/encodings"));
  model.weights = take_all(tensors, layer_lines(model.config, ctranslate2_names));
  if (has_sigmoid_gelu(variables)) use_swish_for_gelu(model.config, model.weights);
  add_tables(take_tables(tensors, variables, model.config), model);
  tensors.require_empty();
  return model;
}

void write_ctranslate2(const ForeignModel& model, const std::filesystem::path& folder) {
  const EncoderDecoderConfig& config = model.config;
  require_expressible(config);
  CTranslate2File file;
  nn::NamedTensors variables = foreign_tensors(model.weights, layer_lines(config, ctranslate2_names));
  const ModelTables tables = tables_of(model);
  variables["decoder/embeddings/weight"] = tables.target;
  if (tables.source.is_same(tables.target)) {
    file.aliases["encoder/embeddings_0/weight"] = "decoder/embeddings/weight";
  } else {
    variables["encoder/embeddings_0/weight"] = tables.source;
  }
  if (tables.output.defined()) {
    variables["decoder/projection/weight"] = tables.output;
  } else {
    file.aliases["decoder/projection/weight"] = "decoder/embeddings/weight";
  }
  variables["decoder/projection/bias"] = bias_without_padding(model, tables.bias);
  const auto scheme = *find_scheme<Sinusoidal>(parse_positions(config.transformer_positions));
  variables["decoder/position_encodings/encodings"] =
      nn::sinusoidal_table(kWrittenPositions, config.dim_emb, scheme).to(at::kFloat);
  file.aliases["encoder/position_encodings/encodings"] = "decoder/position_encodings/encodings";
  add_scalars(config, variables);
  for (auto& [name, tensor] : variables) {
    tensor = tensor.contiguous();
    file.variables[name] = variable_of(tensor);
  }
  write_file(folder / "model.bin", print_ctranslate2(file));
  const WrittenJson json = {{"add_source_bos", false},
                            {"add_source_eos", true},
                            {"bos_token", "<s>"},
                            {"decoder_start_token", "</s>"},
                            {"eos_token", "</s>"},
                            {"layer_norm_epsilon", config.norm_epsilon > 0 ? config.norm_epsilon : kUsualEpsilon},
                            {"multi_query_attention", false},
                            {"unk_token", "<unk>"}};
  write_file(folder / "config.json", json.dump(2) + "\n");
  write_vocabularies(model, folder);
}

}  // namespace fovea::models
