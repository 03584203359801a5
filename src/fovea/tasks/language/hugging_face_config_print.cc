#include "fovea/tasks/language/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/spec/layer_override.h"
#include "fovea/tasks/language/hugging_face_families.h"

// Configurations of ours as config.json.
namespace fovea::language {
namespace {

using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

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

// The mechanism of a layer: its window, 0 for full attention, and the soft cap of its scores, 0 without. Throws an
// Error if it has another mechanism.
struct LayerKind {
  int64_t window = 0;
  double cap = 0;
};
LayerKind kind_of_layer(const LanguageConfig& config, int64_t layer) {
  const LayerSpec spec = attention_of(config, Sublayer::kDecoder, layer);
  AttentionSpec uncapped = spec.front().spec;
  const double cap = uncapped.cap ? uncapped.cap->cap : 0;
  uncapped.cap.reset();
  const std::string text = print(uncapped);
  int64_t window = text == "full" ? 0 : -1;
  if (text.starts_with("window(") && text.ends_with(")"))
    window = number_in<int64_t>(std::string_view(text).substr(7, text.size() - 8)).value_or(-1);
  const bool is_one =
      std::ranges::all_of(spec, [&](const HeadGroup& group) { return group.spec == spec.front().spec; });
  if (!is_one || window < 0)
    throw Error(cat("--to huggingface: the model has the attention ", print(spec),
                    ", which transformers does not compute; give --attention full to fovea train, or keep the "
                    "checkpoint"));
  return {window, cap};
}

// The kinds of a model's layers: the window that some or all of them have, the soft cap of all, and the positions of
// layers with a window and without.
struct LayerKinds {
  std::vector<bool> has_window;
  int64_t window = 0;
  double cap = 0;  // of the scores; 0: none
  std::optional<Rotary> global = {}, local = {};
  Windows windows() const {
    const auto count = std::ranges::count(has_window, true);
    if (count == 0) return Windows::kNone;
    return count == std::ssize(has_window) ? Windows::kAll : Windows::kSome;
  }
};

LayerKinds kinds_of(const LanguageConfig& config) {
  LayerKinds kinds;
  for (int64_t layer = 0; layer < config.dec_depth; ++layer) {
    const auto [window, cap] = kind_of_layer(config, layer);
    if (layer > 0 && cap != kinds.cap)
      throw Error(cat("--to huggingface: the model has other soft caps of scores in layer ", layer + 1,
                      "; the families of transformers have the same in all layers"));
    kinds.cap = cap;
    kinds.has_window.push_back(window > 0);
    if (window > 0 && kinds.window > 0 && window != kinds.window)
      throw Error(cat("--to huggingface: the model has several windows, ", kinds.window, " and ", window,
                      "; the families of transformers have one"));
    if (window > 0) kinds.window = window;
    const std::optional<Rotary> turn = rotary_of(config, Sublayer::kDecoder, layer);
    std::optional<Rotary>& of_kind = window > 0 ? kinds.local : kinds.global;
    if (!turn || (of_kind && *of_kind != *turn))
      throw Error(cat("--to huggingface: the model has other positions in layer ", layer + 1,
                      " (--positions-layers); the families of transformers have rotary positions that are "
                      "the same in all layers, or in all with a window and in all without"));
    of_kind = turn;
  }
  return kinds;
}

std::string text_of(Windows windows) {
  return windows == Windows::kNone ? "none" : windows == Windows::kAll ? "in all layers" : "in some layers";
}

// Leaves out the families that do not have what the model has, one option after the other.
class FamilyChoice {
 public:
  FamilyChoice() {
    for (const DecoderFamily& family : kDecoderFamilies) able_.push_back(&family);
  }
  // Throws an Error that says which values the families have that are left.
  void require(const std::string& option, const std::string& got, auto&& value_of) {
    std::vector<std::string> names, values;
    for (const DecoderFamily* family : able_) {
      names.emplace_back(family->name);
      const std::string value(value_of(*family));
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    std::erase_if(able_, [&](const DecoderFamily* family) { return value_of(*family) != got; });
    if (able_.empty())
      throw Error(cat("--to huggingface: the model has ", option, " ", got, "; ", join(names, ", "),
                      names.size() == 1 ? " has " : " have ", join(values, " or ")));
  }
  const DecoderFamily& first() const { return *able_.front(); }

 private:
  std::vector<const DecoderFamily*> able_;
};

const DecoderFamily& family_of(const LanguageConfig& config, const LayerKinds& kinds) {
  const auto refuse = [](const std::string& what, const std::string& expected) {
    throw Error(cat("--to huggingface: the model has ", what, "; the families of transformers have ", expected));
  };
  FamilyChoice choice;
  choice.require("--transformer-norm", config.transformer_norm, [](const auto& family) { return family.norm; });
  if (config.transformer_norm_kind != "rms")
    refuse(cat("--transformer-norm-kind ", config.transformer_norm_kind), "rms");
  const bool is_known = std::ranges::any_of(
      kDecoderActivations, [&](const auto& pair) { return pair.first == config.transformer_ffn_activation; });
  if (!is_known) refuse(cat("--transformer-ffn-activation ", config.transformer_ffn_activation), "swiglu or geglu");
  if (memory_of(config) > 0) refuse(cat("--memory-length ", memory_of(config)), "none");
  choice.require("--norm-gain", config.norm_gain, [](const auto& family) { return family.norm_gain; });
  choice.require("--embedding-scale", config.embedding_scale,
                 [](const auto& family) { return family.embedding_scale; });
  choice.require("--transformer-biases", config.transformer_biases, [](const auto& family) { return family.biases; });
  choice.require("--transformer-norm-qk", config.transformer_norm_qk,
                 [](const auto& family) { return family.norm_qk; });
  // A family of windows in some layers has them also in none, or in all.
  choice.require("windows", text_of(kinds.windows()), [&](const auto& family) {
    return text_of(family.windows == Windows::kSome ? kinds.windows() : family.windows);
  });
  const std::string caps = kinds.cap > 0 || config.logit_softcap > 0 ? "of scores or logits" : "none";
  choice.require("soft caps", caps, [&](const auto& family) { return family.has_softcaps ? caps : "none"; });
  const DecoderFamily& family = choice.first();
  const bool has_one = !kinds.global || !kinds.local || *kinds.global == *kinds.local;
  if (!family.has_local_positions && !has_one) refuse("other positions in layers with a window", "the same");
  const bool is_whole = config.attention_scalar == std::floor(config.attention_scalar);
  if (config.attention_scalar > 0 && (family.windows != Windows::kSome || !is_whole))
    refuse(cat("--attention-scalar ", shortest(config.attention_scalar)), "none, and Gemma 2 and 3 a whole number");
  return family;
}

void require_rotary(const LanguageConfig& config) {
  const PositionSchemes positions = parse_positions(config.transformer_positions);
  if (positions.size() != 1 || !find_scheme<Rotary>(positions))
    throw Error(cat("--to huggingface: the model has --transformer-positions ", config.transformer_positions,
                    "; the families of transformers have rotary"));
}

// The fields of the positions and the windows.
void add_layers(const LanguageConfig& config, const DecoderFamily& family, const LayerKinds& kinds, WrittenJson& json) {
  const auto rope = [&](const Rotary& scheme) { return rope_json(scheme, head_dim_of(config)); };
  Rotary usual_global, usual_local;
  usual_global.base = kGlobalBase, usual_local.base = kLocalBase;
  const bool has_kinds = family.has_local_positions;
  const Rotary global = kinds.global ? *kinds.global : has_kinds ? usual_global : *kinds.local;
  const Rotary local = kinds.local.value_or(usual_local);
  const WrittenJson own = rope(global);
  json["rope_theta"] = global.base;
  json["rope_parameters"] = own;
  // transformers 4 reads this one.
  if (own.size() > 2) {
    json["rope_scaling"] = own;
    json["rope_scaling"].erase("rope_theta");
  }
  if (has_kinds) {
    json["rope_local_base_freq"] = local.base;
    json["rope_parameters"] = {{"full_attention", own}, {"sliding_attention", rope(local)}};
  }
  if (family.windows == Windows::kSome) {
    WrittenJson types = WrittenJson::array();
    for (const bool has_window : kinds.has_window) types.push_back(has_window ? "sliding_attention" : "full_attention");
    json["layer_types"] = types;
  }
  if (kinds.window > 0) json["sliding_window"] = kinds.window;
}

}  // namespace

std::string family_of(const LanguageConfig& config) {
  require_rotary(config);
  return std::string(family_of(config, kinds_of(config)).type);
}

std::string print_decoder_config(const LanguageConfig& config, const TextEnds& ends, const std::string& dtype) {
  require_rotary(config);
  const LayerKinds kinds = kinds_of(config);
  const DecoderFamily& family = family_of(config, kinds);
  const int64_t keys = config.transformer_heads_kv == 0 ? config.transformer_heads : config.transformer_heads_kv;
  const WrittenJson end = ends.ends.size() == 1 ? WrittenJson(ends.ends.front()) : WrittenJson(ends.ends);
  const auto* const activation = std::ranges::find(kDecoderActivations, config.transformer_ffn_activation,
                                                   &std::pair<std::string_view, std::string_view>::first);
  WrittenJson json = {{"architectures", {cat(family.name, "ForCausalLM")}},
                      {"model_type", family.type},
                      {"vocab_size", config.dim_vocabs.front()},
                      {"hidden_size", config.dim_emb},
                      {"intermediate_size", config.transformer_dim_ffn},
                      {"num_hidden_layers", config.dec_depth},
                      {"num_attention_heads", config.transformer_heads},
                      {"num_key_value_heads", keys},
                      {"head_dim", head_dim_of(config)},
                      {activation_field(family), activation->second},
                      {"max_position_embeddings", std::max(config.max_positions, config.segment_length)},
                      {"rms_norm_eps", config.norm_epsilon == 0 ? 1e-6 : config.norm_epsilon},
                      {"tie_word_embeddings", config.tied_embeddings},
                      {"attention_dropout", config.transformer_dropout_attention},
                      {"bos_token_id", ends.begin},  // transformers takes 1 where a folder of Llama's has none
                      {"eos_token_id", end},
                      {"torch_dtype", dtype}};
  add_layers(config, family, kinds, json);
  if (family.windows == Windows::kSome) {
    json["query_pre_attn_scalar"] =
        config.attention_scalar > 0 ? static_cast<int64_t>(config.attention_scalar) : head_dim_of(config);
    const auto or_null = [](double cap) { return cap > 0 ? WrittenJson(cap) : WrittenJson(); };
    json["final_logit_softcapping"] = or_null(config.logit_softcap);
    json["attn_logit_softcapping"] = or_null(kinds.cap);
  }
  if (family.type.starts_with("qwen")) json["use_sliding_window"] = false;
  if (family.biases != "qkv" && family.windows != Windows::kAll) json["attention_bias"] = false;
  if (family.type == "llama") json["mlp_bias"] = false;
  return json.dump(2) + "\n";
}

}  // namespace fovea::language
