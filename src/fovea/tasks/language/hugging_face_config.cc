#include "fovea/tasks/language/hugging_face_config.h"

#include <algorithm>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/text/json_values.h"

namespace fovea::language {
namespace {

using text::Json;
using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

// Reads fields of the file.
class Reader {
 public:
  Reader(const Json& json, const std::string& origin) : json_(json), origin_(origin) {}

  [[noreturn]] void refuse(const std::string& name, const std::string& got, const std::string& expected) const {
    throw Error(cat(origin_, ": ", name, ": got ", got, "; expected ", expected));
  }
  const Json* find(const char* name) const { return text::find_json(json_, name); }
  int64_t number(const char* name, int64_t most) const { return text::json_number(json_, name, {1, most}, origin_); }
  bool truth(const char* name, bool usual) const { return text::json_truth(json_, name, origin_).value_or(usual); }
  std::string word(const char* name, const char* usual) const {
    return text::json_text(json_, name, origin_).value_or(usual);
  }
  double rate(const char* name, double usual, double most) const {
    return text::json_rate(json_, name, usual, most, origin_);
  }
  // Throws an Error if the field is there, unless it is null or false.
  void require_none(const char* name, const char* what) const {
    const Json* const found = find(name);
    if (found != nullptr && *found != false) refuse(name, text::shown_json(*found), cat("none: ", what));
  }
  const Json& json() const { return json_; }
  const std::string& origin() const { return origin_; }

 private:
  const Json& json_;
  const std::string& origin_;
};

// The base of the rotary positions: rope_theta, or the same within rope_parameters, which transformers 5 writes.
double rotary_base(const Reader& reader) {
  double base = Rotary().base;
  if (reader.find("rope_theta") != nullptr) base = reader.rate("rope_theta", base, 1e12);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* const object = reader.find(name);
    if (object == nullptr) continue;
    const std::string place = cat(reader.origin(), ": ", name);
    if (!object->is_object()) reader.refuse(name, text::shown_json(*object), "an object");
    const std::string old = text::json_text(*object, "type", place).value_or("default");
    const std::string type = text::json_text(*object, "rope_type", place).value_or(old);
    if (type != "default") reader.refuse(name, cat("the type '", type, "'"), "default: positions that are not scaled");
    if (object->contains("full_attention") || object->contains("sliding_attention"))
      reader.refuse(name, "other positions in some layers", "the same in all");
    if (text::json_rate(*object, "partial_rotary_factor", 1, 1, place) != 1)
      reader.refuse(name, "a partial_rotary_factor below 1", "positions that turn whole heads");
    base = text::json_rate(*object, "rope_theta", base, 1e12, place);
  }
  if (reader.rate("partial_rotary_factor", 1, 1) != 1)
    reader.refuse("partial_rotary_factor", "a share below 1", "positions that turn whole heads");
  if (base < 1) reader.refuse("rope_theta", shortest(base), "a number from 1 on");
  return base;
}

void require_known_parts(const Reader& reader, const std::string& family) {
  reader.require_none("attention_bias", "biases of the attention's matrices are read from Qwen2 alone");
  reader.require_none("mlp_bias", "the feed-forward blocks have no biases");
  reader.require_none("attn_logit_softcapping", "scores are not capped");
  reader.require_none("final_logit_softcapping", "logits are not capped");
  reader.require_none("num_local_experts", "experts are not read");
  reader.require_none("num_experts", "experts are not read");
  reader.require_none("use_qk_norm", "queries and keys have no norms");
  reader.require_none("quantization_config", "weights are float32, bfloat16 or float16");
  if (family == kQwen2) reader.require_none("use_sliding_window", "a window of some layers of Qwen2 is not read");
  text::require_json_word(reader.word("hidden_act", "silu"), "hidden_act", {"silu"}, reader.origin());
  if (const Json* const layers = reader.find("layer_types")) {
    const bool are_full =
        layers->is_array() &&
        std::ranges::all_of(
            *layers, [](const Json& layer) { return layer == "full_attention" || layer == "sliding_attention"; }) &&
        std::ranges::adjacent_find(*layers, std::not_equal_to()) == layers->end();
    const bool slides = are_full && !layers->empty() && layers->front() == "sliding_attention";
    if (!are_full || (slides && family != kMistral))
      reader.refuse("layer_types", "layers of several kinds", "full_attention in all");
  }
}

// Mistral's sliding window: a token sees itself and n - 1 tokens before it, as in window(n).
std::string attention_of_family(const Reader& reader, const std::string& family) {
  constexpr int64_t kUsual = 4096;  // what transformers takes if the field is missing
  if (family != kMistral) return "full";
  if (!reader.json().contains("sliding_window")) return cat("window(", kUsual, ")");
  if (reader.find("sliding_window") == nullptr) return "full";
  return cat("window(", reader.number("sliding_window", 1 << 30), ")");
}

std::optional<int64_t> window_of(const LanguageConfig& config) {
  std::optional<int64_t> window;
  for (int64_t layer = 0; layer < config.dec_depth; ++layer) {
    const LayerSpec spec = attention_of(config, Sublayer::kDecoder, layer);
    for (const HeadGroup& group : spec) {
      const std::string text = print(group.spec);
      int64_t own = 0;
      if (text.starts_with("window(") && text.ends_with(")"))
        own = number_in<int64_t>(std::string_view(text).substr(7, text.size() - 8)).value_or(-1);
      if (own < 0 || (own == 0 && text != "full"))
        throw Error(cat("--to huggingface: the model has the attention ", print(spec),
                        ", which transformers does not compute; give --attention full to fovea train, or keep the "
                        "checkpoint"));
      if (window && *window != own)
        throw Error(cat("--to huggingface: the model has several windows, such as ", print(spec),
                        "; Mistral's layers have one"));
      window = own;
    }
  }
  return window == 0 ? std::nullopt : window;
}

}  // namespace

bool is_decoder_folder(const std::filesystem::path& folder) {
  const std::string path = folder / "config.json";
  require_file(path, "model");
  const auto family = text::json_text(text::parse_json_object(read_text_file(path), path), "model_type", path);
  return family && *family != "marian";
}

LanguageConfig parse_decoder_config(const std::string& text, const std::string& origin) {
  const Json json = text::parse_json_object(text, origin);
  const Reader reader(json, origin);
  const std::string family = reader.word("model_type", "none");
  text::require_json_word(family, "model_type", {kLlama, kMistral, kQwen2, "marian"}, origin);
  require_known_parts(reader, family);
  LanguageConfig config;
  config.dim_emb = reader.number("hidden_size", 65536);
  config.dec_depth = reader.number("num_hidden_layers", 1000);
  config.transformer_heads = reader.number("num_attention_heads", 1024);
  const int64_t keys = reader.find("num_key_value_heads") == nullptr ? config.transformer_heads
                                                                     : reader.number("num_key_value_heads", 1024);
  config.transformer_heads_kv = keys == config.transformer_heads ? 0 : keys;
  if (reader.find("head_dim") != nullptr &&
      reader.number("head_dim", 65536) * config.transformer_heads != config.dim_emb)
    reader.refuse("head_dim", cat(reader.number("head_dim", 65536)),
                  cat("hidden_size / num_attention_heads, ", config.dim_emb, " / ", config.transformer_heads));
  config.transformer_dim_ffn = reader.number("intermediate_size", 1 << 20);
  config.norm_epsilon = reader.rate("rms_norm_eps", 1e-6, 1);
  config.transformer_norm = "pre";
  config.transformer_norm_kind = "rms";
  config.transformer_positions = print({Rotary{rotary_base(reader)}});
  config.transformer_ffn_activation = "swiglu";
  config.transformer_biases = family == kQwen2 ? "qkv" : "none";
  config.embedding_scale = "one";
  config.tied_embeddings = reader.truth("tie_word_embeddings", false);
  config.transformer_dropout = 0;
  config.transformer_dropout_attention = reader.rate("attention_dropout", 0, 0.99);
  config.max_positions = reader.number("max_position_embeddings", 1 << 24);
  config.segment_length = std::min(config.max_positions, kLongestSegment);
  config.memory_length = 0;
  config.dim_vocabs = {reader.number("vocab_size", 1 << 24)};
  config.attention = attention_of_family(reader, family);
  try {
    validate(config);
  } catch (const Error& error) {
    throw Error(cat(origin, ": ", error.what()));
  }
  return config;
}

std::string family_of(const LanguageConfig& config) {
  const auto refuse = [](const std::string& what, const std::string& expected) {
    throw Error(cat("--to huggingface: the model has ", what, "; Llama, Mistral and Qwen2 have ", expected));
  };
  if (config.transformer_norm != "pre" || config.transformer_norm_kind != "rms")
    refuse(cat(config.transformer_norm, "-norm of the kind ", config.transformer_norm_kind),
           "pre-norm of the kind rms");
  const PositionSchemes positions = parse_positions(config.transformer_positions);
  if (positions.size() != 1 || !find_scheme<Rotary>(positions))
    refuse(cat("--transformer-positions ", config.transformer_positions), "rotary");
  if (config.transformer_ffn_activation != "swiglu")
    refuse(cat("--transformer-ffn-activation ", config.transformer_ffn_activation), "swiglu");
  if (config.transformer_biases == "all") refuse("--transformer-biases all", "none, or qkv");
  if (config.embedding_scale != "one") refuse(cat("--embedding-scale ", config.embedding_scale), "one");
  if (memory_of(config) > 0) refuse(cat("--memory-length ", memory_of(config)), "none");
  const std::optional<int64_t> window = window_of(config);
  const bool has_biases = config.transformer_biases == "qkv";
  if (window && has_biases) refuse("a window and --transformer-biases qkv", "one of the two");
  return window ? kMistral : has_biases ? kQwen2 : kLlama;
}

std::string print_decoder_config(const LanguageConfig& config, const TextEnds& ends, const std::string& dtype) {
  const std::string family = family_of(config);
  const int64_t keys = config.transformer_heads_kv == 0 ? config.transformer_heads : config.transformer_heads_kv;
  const double base = find_scheme<Rotary>(parse_positions(config.transformer_positions)).value().base;
  const std::string name = family == kLlama ? "Llama" : family == kMistral ? "Mistral" : "Qwen2";
  WrittenJson json = {{"architectures", {cat(name, "ForCausalLM")}},
                      {"model_type", family},
                      {"vocab_size", config.dim_vocabs.front()},
                      {"hidden_size", config.dim_emb},
                      {"intermediate_size", config.transformer_dim_ffn},
                      {"num_hidden_layers", config.dec_depth},
                      {"num_attention_heads", config.transformer_heads},
                      {"num_key_value_heads", keys},
                      {"hidden_act", "silu"},
                      {"max_position_embeddings", std::max(config.max_positions, config.segment_length)},
                      {"rms_norm_eps", config.norm_epsilon == 0 ? 1e-6 : config.norm_epsilon},
                      {"rope_theta", base},
                      {"rope_parameters", {{"rope_theta", base}, {"rope_type", "default"}}},
                      {"tie_word_embeddings", config.tied_embeddings},
                      {"attention_dropout", config.transformer_dropout_attention},
                      {"bos_token_id", ends.begin},  // transformers takes 1 where a folder of Llama's has none
                      {"eos_token_id", ends.end},
                      {"torch_dtype", dtype}};
  if (family == kQwen2) json["use_sliding_window"] = false;
  if (family == kLlama) json["attention_bias"] = json["mlp_bias"] = false;
  if (family == kMistral) json["sliding_window"] = window_of(config).value();
  return json.dump(2) + "\n";
}

}  // namespace fovea::language
