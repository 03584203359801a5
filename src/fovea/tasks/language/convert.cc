#include "fovea/tasks/language/convert.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/aside_folder.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/tensor_folder.h"
#include "fovea/models/formats/tensor_taker.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/model.h"
#include "fovea/nn/safetensors.h"
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/hugging_face_config.h"
#include "fovea/tasks/language/load_model.h"
#include "fovea/text/units.h"

namespace fovea::language {
namespace {

using models::TensorLine;

struct ForeignDecoder {
  LanguageConfig config;
  nn::NamedTensors weights;  // by the names of nn/model.h, float32
  text::Units units;
};

constexpr const char *kConfig = "config.json", *kWeights = "model.safetensors";

// Lists the tensors of a model by both names.
class DecoderTensors {
 public:
  explicit DecoderTensors(const LanguageConfig& config)
      : config_(config), width_(config.dim_emb), head_(head_dim_of(config)), inner_(config.transformer_dim_ffn) {
    add("embeddings.weight", {{"model.embed_tokens.weight", vocabulary()}}, width_);
    for (int64_t layer = 0; layer < config.dec_depth; ++layer) add_layer(layer);
    add("norm.weight", {{"model.norm.weight", width_}}, 0);
    if (!config.tied_embeddings) add("output.weight", {{"lm_head.weight", vocabulary()}}, width_);
  }
  std::vector<TensorLine> take() { return std::move(all_); }

 private:
  int64_t vocabulary() const { return config_.dim_vocabs.front(); }
  void add(const std::string& own_name, std::vector<TensorLine::Part> parts, int64_t columns) {
    all_.push_back({own_name, std::move(parts), columns});
  }
  void add_layer(int64_t layer) {
    const std::string own = cat("layers.", layer, "."), their = cat("model.layers.", layer, ".");
    const std::string attention = cat(their, "self_attn."), mlp = cat(their, "mlp.");
    const int64_t heads_kv = config_.transformer_heads_kv;
    const int64_t queries = head_ * config_.transformer_heads, keys = heads_kv == 0 ? queries : head_ * heads_kv;
    for (const std::string part : {"weight", "bias"}) {
      if (part == "bias" && config_.transformer_biases != "qkv") continue;
      add(cat(own, "self_attention.qkv.", part),
          {{cat(attention, "q_proj.", part), queries},
           {cat(attention, "k_proj.", part), keys},
           {cat(attention, "v_proj.", part), keys}},
          part == "bias" ? 0 : width_);
    }
    add(cat(own, "self_attention.out.weight"), {{cat(attention, "o_proj.weight"), width_}}, queries);
    if (config_.transformer_norm_qk == "rms") {
      for (const std::string side : {"q", "k"})
        add(cat(own, "self_attention.", side, "_norm.weight"), {{cat(attention, side, "_norm.weight"), head_}}, 0);
    }
    add(cat(own, "self_attention_norm.weight"), {{cat(their, "input_layernorm.weight"), width_}}, 0);
    add(cat(own, "feed_forward.in.weight"),
        {{cat(mlp, "gate_proj.weight"), inner_}, {cat(mlp, "up_proj.weight"), inner_}}, width_);
    add(cat(own, "feed_forward.out.weight"), {{cat(mlp, "down_proj.weight"), width_}}, inner_);
    const bool is_sandwich = config_.transformer_norm == "sandwich";
    if (is_sandwich)
      add(cat(own, "self_attention_output_norm.weight"), {{cat(their, "post_attention_layernorm.weight"), width_}}, 0);
    const char* const before = is_sandwich ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    add(cat(own, "feed_forward_norm.weight"), {{cat(their, before, ".weight"), width_}}, 0);
    if (is_sandwich)
      add(cat(own, "feed_forward_output_norm.weight"), {{cat(their, "post_feedforward_layernorm.weight"), width_}}, 0);
  }

  const LanguageConfig& config_;
  int64_t width_, head_, inner_;
  std::vector<TensorLine> all_;
};

std::vector<TensorLine> tensors_of(const LanguageConfig& config) { return DecoderTensors(config).take(); }

// Names as LlamaForCausalLM's: a file of LlamaModel lacks "model." before them. Frequencies that transformers computes,
// which old files hold in several places, are left out.
nn::NamedTensors with_usual_names(nn::NamedTensors tensors) {
  const bool has_prefix =
      std::ranges::any_of(tensors, [](const auto& tensor) { return tensor.first.starts_with("model."); });
  nn::NamedTensors usual;
  for (auto& [name, tensor] : tensors) {
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    usual.emplace(has_prefix || name.starts_with("lm_head.") ? name : cat("model.", name), std::move(tensor));
  }
  return usual;
}

nn::NamedTensors take_weights(models::TensorTaker& tensors, const LanguageConfig& config, const std::string& origin) {
  if (config.tied_embeddings) tensors.stand_in("model.embed_tokens.weight", {"lm_head.weight"});
  nn::NamedTensors weights = models::take_all(tensors, tensors_of(config));
  // A second copy of a tied table.
  if (config.tied_embeddings && tensors.has("lm_head.weight")) {
    const at::Tensor& table = weights.at("embeddings.weight");
    if (!tensors.take("lm_head.weight", table.sizes().vec()).equal(table))
      throw Error(cat(origin, ": 'lm_head.weight' differs from the table that config.json says it is tied to"));
  }
  tensors.require_empty();
  return weights;
}

at::ScalarType type_of(const std::string& precision) {
  return precision == "bfloat16" ? at::kBFloat16 : precision == "float16" ? at::kHalf : at::kFloat;
}

// Throws an Error that names the file and the field or tensor that cannot be taken over.
ForeignDecoder read_decoder(const std::filesystem::path& folder) {
  const std::string config_path = folder / kConfig;
  require_file(config_path, "model");
  LanguageConfig config = parse_decoder_config(read_text_file(config_path), config_path);
  text::Units units = text::Units::from_files(text::token_files(folder), folder);
  const int64_t rows = config.dim_vocabs.front();
  if (rows < units.size())
    throw Error(cat(config_path, ": vocab_size: got ", rows, ", but the tokeniser has ", units.size(),
                    " tokens; expected at least as many rows"));
  units = units.with_rows(rows);
  const std::string weights_path = models::weights_file(folder);
  models::TensorTaker tensors(with_usual_names(models::read_tensor_folder(folder)), weights_path, kConfig);
  nn::NamedTensors weights = take_weights(tensors, config, weights_path);
  return {std::move(config), std::move(weights), std::move(units)};
}

// Writes the files into an empty folder, tensors in the type `precision`: float32, bfloat16 or float16. Throws an Error
// if no family computes what the model does, or if its units are not tokens of such a folder.
void write_decoder(const ForeignDecoder& model, const std::string& precision, const std::filesystem::path& folder) {
  family_of(model.config);
  if (!model.units.is_of_folder())
    throw Error(cat("--to huggingface: the model's units are ", model.units.unit_name(),
                    "s; expected the tokens of a folder of Hugging Face's (--vocabs FOLDER in training)"));
  const nn::NamedTensors tensors = models::foreign_tensors(model.weights, tensors_of(model.config), type_of(precision));
  write_file(folder / kWeights, nn::print_safetensors(tensors, {{"format", "pt"}}));
  const TextEnds ends = {model.units.begin(), model.units.ends()};
  write_file(folder / kConfig, print_decoder_config(model.config, ends, precision));
  for (const auto& [name, contents] : model.units.files()) write_file(folder / name, contents);
}

void convert_from(const models::ConvertOptions& options) {
  const std::string& input = options.input.front();
  const ForeignDecoder model = read_decoder(input);
  nn::load_parameters(*nn::Model(model.config, std::nullopt), model.weights, cat("'", input, "'"));
  nn::Checkpoint checkpoint;
  checkpoint.identity = nn::identity_of(kTask, model.config, model.units.files());
  checkpoint.model = model.weights;
  nn::save_checkpoint(options.output, checkpoint);
  const LanguageConfig& config = model.config;
  log::info(cat("converted '", input, "': ", config.dec_depth, " layers, width ", config.dim_emb, ", ",
                config.transformer_heads, " heads, ", thousands(config.dim_vocabs.front()), " tokens, attention ",
                config.attention));
}

void convert_to(const models::ConvertOptions& options) {
  LanguageModelOptions trained;
  trained.model = options.input.front();
  const LoadedModel loaded = load_model(trained, "the model");
  const std::filesystem::path folder = options.output;
  AsideFolder aside(folder.has_filename() ? folder : folder.parent_path());
  write_decoder({loaded.config, nn::parameters_of(*loaded.model), loaded.units}, options.precision, aside.path());
  aside.commit();
}

}  // namespace

void convert(const models::ConvertOptions& options) {
  if (options.to.empty()) {
    models::require_checkpoint_place(options.output);
    return convert_from(options);
  }
  models::require_new_folder(options.output);
  convert_to(options);
}

}  // namespace fovea::language
