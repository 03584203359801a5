#include "fovea/tasks/language/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/tensor_index.h"
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

// Scaled turns by an object of rope_scaling or rope_parameters, as transformers computes them.
class RotaryReader {
 public:
  RotaryReader(const Reader& reader, const char* name)
      : reader_(reader), name_(name), object_(*reader.find(name)), place_(cat(reader.origin(), ": ", name)) {
    if (!object_.is_object()) reader.refuse(name, text::shown_json(object_), "an object");
  }

  // `base` is that of the fields before.
  Rotary read(double base) {
    const std::string old = text::json_text(object_, "type", place_).value_or("default");
    const std::string type = text::json_text(object_, "rope_type", place_).value_or(old);
    if (object_.contains("full_attention") || object_.contains("sliding_attention"))
      reader_.refuse(name_, "other positions in some layers", "the same in all");
    if (rate("partial_rotary_factor", 1, 1) != 1)
      reader_.refuse(name_, "a partial_rotary_factor below 1", "positions that turn whole heads");
    scheme_.base = rate("rope_theta", base, 1e12);
    if (type == "llama3") {
      read_llama3();
    } else if (type == "yarn") {
      read_yarn();
    } else if (type == "linear") {
      read_factor();
    } else if (type != "default") {
      reader_.refuse(name_, cat("the type '", type, "'"), "default, linear, llama3 or yarn");
    }
    return scheme_;
  }

 private:
  double rate(const char* field, double usual, double most) const {
    return text::json_rate(object_, field, usual, most, place_);
  }
  void require(const char* field) const {
    if (text::find_json(object_, field) == nullptr) throw Error(cat(place_, ": ", field, " is missing"));
  }
  void read_factor() {
    require("factor");
    scheme_.factor = rate("factor", 1, 1e6);
  }
  // The tokens of the first training; transformers takes the field beside the object first.
  void read_original() {
    constexpr const char *kOriginal = "original_max_position_embeddings", *kLongest = "max_position_embeddings";
    const text::JsonRange range = {1, 1 << 30};
    scheme_.original = static_cast<double>(
        reader_.find(kOriginal) != nullptr ? text::json_number(reader_.json(), kOriginal, range, reader_.origin())
        : text::find_json(object_, kOriginal) != nullptr ? text::json_number(object_, kOriginal, range, place_)
                                                         : reader_.number(kLongest, 1 << 30));
  }
  void read_llama3() {
    scheme_.llama3 = true;
    read_factor();
    for (const char* field : {"low_freq_factor", "high_freq_factor"}) require(field);
    scheme_.low = rate("low_freq_factor", 1, 1e6);
    scheme_.high = rate("high_freq_factor", 4, 1e6);
    read_original();
  }
  void read_yarn() {
    scheme_.yarn = true;
    read_original();
    const auto longest = static_cast<double>(reader_.number("max_position_embeddings", 1 << 30));
    scheme_.factor = rate("factor", longest / scheme_.original, 1e6);
    const auto some = [&](const char* field, double usual) {
      const double value = rate(field, usual, 1e6);
      return value == 0 ? usual : value;
    };
    scheme_.fast = some("beta_fast", scheme_.fast);
    scheme_.slow = some("beta_slow", scheme_.slow);
    scheme_.exact = !text::json_truth(object_, "truncate", place_).value_or(true);
    const double scale = rate("mscale", 0, 1e3), of_all = rate("mscale_all_dim", 0, 1e3);
    const auto gain = [&](double by) { return scheme_.factor <= 1 ? 1.0 : 0.1 * by * std::log(scheme_.factor) + 1; };
    if (text::find_json(object_, "attention_factor") != nullptr) {
      scheme_.gain = rate("attention_factor", 0, 1e3);
      if (scheme_.gain == 0) reader_.refuse(name_, "the attention_factor 0", "a number above 0");
    } else if (scale > 0 && of_all > 0) {
      scheme_.gain = gain(scale) / gain(of_all);
    }
  }

  const Reader& reader_;
  const char* name_;
  const Json& object_;
  std::string place_;
  Rotary scheme_;
};

// The rotary positions: rope_theta with rope_scaling, or all within rope_parameters, which transformers 5 writes.
Rotary rotary_of(const Reader& reader) {
  Rotary scheme;
  if (reader.find("rope_theta") != nullptr) scheme.base = reader.rate("rope_theta", scheme.base, 1e12);
  for (const char* name : {"rope_parameters", "rope_scaling"})
    if (reader.find(name) != nullptr) scheme = RotaryReader(reader, name).read(scheme.base);
  if (reader.rate("partial_rotary_factor", 1, 1) != 1)
    reader.refuse("partial_rotary_factor", "a share below 1", "positions that turn whole heads");
  if (scheme.base < 1) reader.refuse("rope_theta", shortest(scheme.base), "a number from 1 on");
  // The texts of positions have ranges, which parsing checks.
  try {
    parse_positions(print({scheme}));
  } catch (const Error& error) {
    throw Error(cat(reader.origin(), ": the scaling of positions: ", error.what()));
  }
  return scheme;
}

WrittenJson rope_json(const Rotary& scheme, int64_t head_dim) {
  WrittenJson json = {{"rope_theta", scheme.base}};
  json["rope_type"] = scheme.llama3 ? "llama3" : scheme.yarn ? "yarn" : scheme.factor != 1 ? "linear" : "default";
  if (json["rope_type"] == "default") return json;
  json["factor"] = scheme.factor;
  if (scheme.llama3 || scheme.yarn) json["original_max_position_embeddings"] = static_cast<int64_t>(scheme.original);
  if (scheme.llama3) {
    json["low_freq_factor"] = scheme.low;
    json["high_freq_factor"] = scheme.high;
  }
  if (scheme.yarn) {
    json["beta_fast"] = scheme.fast;
    json["beta_slow"] = scheme.slow;
    json["truncate"] = !scheme.exact;
    json["attention_factor"] = angles_of(scheme, head_dim).scale;
  }
  return json;
}

void require_known_parts(const Reader& reader, const std::string& family) {
  reader.require_none("attention_bias", "biases of the attention's matrices are read from Qwen2 alone");
  reader.require_none("mlp_bias", "the feed-forward blocks have no biases");
  reader.require_none("attn_logit_softcapping", "scores are not capped");
  reader.require_none("final_logit_softcapping", "logits are not capped");
  reader.require_none("num_local_experts", "experts are not read");
  reader.require_none("num_experts", "experts are not read");
  reader.require_none("use_qk_norm", "norms of queries and keys are read from Qwen3 alone");
  reader.require_none("quantization_config", "weights are float32, bfloat16 or float16");
  if (family == kQwen2 || family == kQwen3)
    reader.require_none("use_sliding_window", "a window of some layers is not read");
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
  models::refuse_adapter(folder);
  require_file(path, "model");
  const auto family = text::json_text(text::parse_json_object(read_text_file(path), path), "model_type", path);
  return family && *family != "marian";
}

LanguageConfig parse_decoder_config(const std::string& text, const std::string& origin) {
  const Json json = text::parse_json_object(text, origin);
  const Reader reader(json, origin);
  const std::string family = reader.word("model_type", "none");
  text::require_json_word(family, "model_type", {kLlama, kMistral, kQwen2, kQwen3, "marian"}, origin);
  require_known_parts(reader, family);
  LanguageConfig config;
  config.dim_emb = reader.number("hidden_size", 65536);
  config.dec_depth = reader.number("num_hidden_layers", 1000);
  config.transformer_heads = reader.number("num_attention_heads", 1024);
  const int64_t keys = reader.find("num_key_value_heads") == nullptr ? config.transformer_heads
                                                                     : reader.number("num_key_value_heads", 1024);
  config.transformer_heads_kv = keys == config.transformer_heads ? 0 : keys;
  // Heads of transformers' Qwen3 have 128 numbers if the field is missing, those of the others their share.
  const int64_t head = reader.find("head_dim") != nullptr ? reader.number("head_dim", 65536)
                       : family == kQwen3                 ? 128
                                                          : config.dim_emb / config.transformer_heads;
  if (head * config.transformer_heads != config.dim_emb) config.transformer_dim_head = head;
  config.transformer_norm_qk = family == kQwen3 ? "rms" : "none";
  config.transformer_dim_ffn = reader.number("intermediate_size", 1 << 20);
  config.norm_epsilon = reader.rate("rms_norm_eps", 1e-6, 1);
  config.transformer_norm = "pre";
  config.transformer_norm_kind = "rms";
  config.transformer_positions = print({rotary_of(reader)});
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
    throw Error(cat("--to huggingface: the model has ", what, "; Llama, Mistral, Qwen2 and Qwen3 have ", expected));
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
  const bool has_norms = config.transformer_norm_qk == "rms";
  if (static_cast<int>(window.has_value()) + static_cast<int>(has_biases) + static_cast<int>(has_norms) > 1)
    refuse("two of a window, --transformer-biases qkv and --transformer-norm-qk rms", "one of them");
  return window ? kMistral : has_biases ? kQwen2 : has_norms ? kQwen3 : kLlama;
}

std::string print_decoder_config(const LanguageConfig& config, const TextEnds& ends, const std::string& dtype) {
  const std::string family = family_of(config);
  const int64_t keys = config.transformer_heads_kv == 0 ? config.transformer_heads : config.transformer_heads_kv;
  const Rotary scheme = find_scheme<Rotary>(parse_positions(config.transformer_positions)).value();
  const WrittenJson rope = rope_json(scheme, head_dim_of(config));
  const WrittenJson end = ends.ends.size() == 1 ? WrittenJson(ends.ends.front()) : WrittenJson(ends.ends);
  const std::string name = family == kLlama     ? "Llama"
                           : family == kMistral ? "Mistral"
                           : family == kQwen2   ? "Qwen2"
                                                : "Qwen3";
  WrittenJson json = {{"architectures", {cat(name, "ForCausalLM")}},
                      {"model_type", family},
                      {"vocab_size", config.dim_vocabs.front()},
                      {"hidden_size", config.dim_emb},
                      {"intermediate_size", config.transformer_dim_ffn},
                      {"num_hidden_layers", config.dec_depth},
                      {"num_attention_heads", config.transformer_heads},
                      {"num_key_value_heads", keys},
                      {"head_dim", head_dim_of(config)},
                      {"hidden_act", "silu"},
                      {"max_position_embeddings", std::max(config.max_positions, config.segment_length)},
                      {"rms_norm_eps", config.norm_epsilon == 0 ? 1e-6 : config.norm_epsilon},
                      {"rope_theta", scheme.base},
                      {"rope_parameters", rope},
                      {"tie_word_embeddings", config.tied_embeddings},
                      {"attention_dropout", config.transformer_dropout_attention},
                      {"bos_token_id", ends.begin},  // transformers takes 1 where a folder of Llama's has none
                      {"eos_token_id", end},
                      {"torch_dtype", dtype}};
  // transformers 4 reads this one.
  if (rope.size() > 2) {
    json["rope_scaling"] = rope;
    json["rope_scaling"].erase("rope_theta");
  }
  if (family == kQwen2 || family == kQwen3) json["use_sliding_window"] = false;
  if (family == kLlama || family == kQwen3) json["attention_bias"] = false;
  if (family == kLlama) json["mlp_bias"] = false;
  if (family == kMistral) json["sliding_window"] = window_of(config).value();
  return json.dump(2) + "\n";
}

}  // namespace fovea::language
