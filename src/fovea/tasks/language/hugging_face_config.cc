#include "fovea/tasks/language/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/tensor_index.h"
#include "fovea/tasks/language/hugging_face_families.h"
#include "fovea/text/json_values.h"

namespace fovea::language {
namespace {

using text::Json;

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
  RotaryReader(const Reader& reader, std::string name, const Json& object)
      : reader_(reader), name_(std::move(name)), object_(object), place_(cat(reader.origin(), ": ", name_)) {
    if (!object_.is_object()) reader.refuse(name_, text::shown_json(object_), "an object");
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
  std::string name_;
  const Json& object_;
  std::string place_;
  Rotary scheme_;
};

// The texts of positions have ranges, which parsing checks.
Rotary checked(const Rotary& scheme, const Reader& reader) {
  if (scheme.base < 1) reader.refuse("rope_theta", shortest(scheme.base), "a number from 1 on");
  try {
    parse_positions(print({scheme}));
  } catch (const Error& error) {
    throw Error(cat(reader.origin(), ": the scaling of positions: ", error.what()));
  }
  return scheme;
}

// The rotary positions: rope_theta with rope_scaling, or all within rope_parameters, which transformers 5 writes.
Rotary rotary_of(const Reader& reader) {
  Rotary scheme;
  if (reader.find("rope_theta") != nullptr) scheme.base = reader.rate("rope_theta", scheme.base, 1e12);
  for (const char* name : {"rope_parameters", "rope_scaling"})
    if (const Json* const object = reader.find(name)) scheme = RotaryReader(reader, name, *object).read(scheme.base);
  if (reader.rate("partial_rotary_factor", 1, 1) != 1)
    reader.refuse("partial_rotary_factor", "a share below 1", "positions that turn whole heads");
  return checked(scheme, reader);
}

// The rotary positions of a kind of layers, "full_attention" or "sliding_attention". `base` is that of the field beside
// the objects. Scaling that the file has in rope_scaling is of layers with full attention alone.
Rotary rotary_of_kind(const Reader& reader, const std::string& kind, double base) {
  Json object = Json::object();
  const Json* const all = reader.find("rope_parameters");
  if (all != nullptr) {
    const bool has_kinds = all->is_object() && (all->contains("full_attention") || all->contains("sliding_attention"));
    if (!has_kinds)
      reader.refuse("rope_parameters", text::shown_json(*all), "objects full_attention and sliding_attention");
    if (const Json* const own = text::find_json(*all, kind)) object = *own;
  }
  if (const Json* const scaling = reader.find("rope_scaling"); scaling != nullptr && kind == "full_attention") {
    if (!scaling->is_object()) reader.refuse("rope_scaling", text::shown_json(*scaling), "an object");
    if (object.is_object()) object.update(*scaling);
  }
  return checked(RotaryReader(reader, cat("rope_parameters: ", kind), object).read(base), reader);
}

void require_known_parts(const Reader& reader, const DecoderFamily& family) {
  reader.require_none("attention_bias", "biases of the attention's matrices are read from Qwen2 alone");
  reader.require_none("mlp_bias", "the feed-forward blocks have no biases");
  if (!family.has_softcaps) {
    for (const char* field : {"attn_logit_softcapping", "final_logit_softcapping"})
      reader.require_none(field, "soft caps are read from Gemma 2 alone");
  }
  reader.require_none("num_local_experts", "experts are not read");
  reader.require_none("num_experts", "experts are not read");
  reader.require_none("use_qk_norm", "norms of queries and keys are read from Qwen3 alone");
  reader.require_none("quantization_config", "weights are float32, bfloat16 or float16");
  reader.require_none("use_bidirectional_attention", "a token sees no later ones");
  if (family.type.starts_with("qwen")) reader.require_none("use_sliding_window", "a window of some layers is not read");
}

std::string activation_of(const Reader& reader, const DecoderFamily& family) {
  const char* const field = activation_field(family);
  const std::string theirs = reader.word(field, family.type.starts_with("gemma") ? "gelu_pytorch_tanh" : "silu");
  std::vector<std::string> known;
  for (const auto& [ours, name] : kDecoderActivations) {
    if (name == theirs) return std::string(ours);
    known.emplace_back(name);
  }
  reader.refuse(field, cat("'", theirs, "'"), join(known, " or "));
}

// Whether each layer has a window: by layer_types, else by the number of the pattern's layers, of which the last has
// none (Gemma 2 and 3), else as the family has it.
std::vector<bool> windows_of(const Reader& reader, const DecoderFamily& family, int64_t layers) {
  const auto count = static_cast<size_t>(layers);
  std::vector<bool> has_window(count, family.windows == Windows::kAll);
  const Json* const types = reader.find("layer_types");
  if (types != nullptr) {
    const bool is_known =
        types->is_array() && types->size() == count && std::ranges::all_of(*types, [](const Json& type) {
          return type == "full_attention" || type == "sliding_attention";
        });
    if (!is_known)
      reader.refuse("layer_types", text::shown_json(*types),
                    cat("full_attention or sliding_attention for each of ", layers, " layers"));
    for (size_t i = 0; i < count; ++i) has_window[i] = (*types)[i] == "sliding_attention";
  } else if (family.windows == Windows::kSome) {
    constexpr const char *kPattern = "sliding_window_pattern", *kNewer = "_sliding_window_pattern";
    const char* const field = reader.find(kPattern) != nullptr ? kPattern : kNewer;
    const int64_t pattern = reader.find(field) == nullptr ? family.usual_pattern : reader.number(field, 1000);
    for (size_t i = 0; i < count; ++i) has_window[i] = (static_cast<int64_t>(i) + 1) % pattern != 0;
  }
  const bool is_mixed = std::ranges::adjacent_find(has_window, std::not_equal_to()) != has_window.end();
  const bool is_refused = (is_mixed && family.windows != Windows::kSome) ||
                          (family.windows == Windows::kNone && std::ranges::count(has_window, true) > 0);
  if (is_refused) reader.refuse("layer_types", "layers of several kinds", "full_attention in all");
  return has_window;
}

// Sliding windows: a token sees itself and n - 1 tokens before it, as in window(n).
int64_t window_of(const Reader& reader) {
  constexpr int64_t kUsual = 4096;  // what transformers takes if the field is missing
  return reader.json().contains("sliding_window") ? reader.number("sliding_window", 1 << 30) : kUsual;
}

// A soft cap; 0 if the file has null. A field that is missing has the family's usual cap.
double softcap_of(const Reader& reader, const char* field, double usual) {
  if (reader.json().contains(field) && reader.find(field) == nullptr) return 0;
  constexpr auto kRange = std::get<0>(ScoreCap::fields());
  const double cap = reader.rate(field, usual, kRange.max);
  if (cap < kRange.min)
    reader.refuse(field, shortest(cap),
                  cat("a number from ", shortest(kRange.min), " to ", shortest(kRange.max), ", or null"));
  return cap;
}

// The text of a mechanism.
std::string mechanism_of(const std::string& pairs, double cap) {
  return print(parse_attention(cap == 0 ? pairs : cat(pairs, "+softcap(", shortest(cap), ")")));
}

// The mechanisms and the positions of layers that have a window or not.
void read_layers(const Reader& reader, const DecoderFamily& family, LanguageConfig& config) {
  std::vector<bool> has_window = windows_of(reader, family, config.dec_depth);
  // Mistral without a window has null in the field.
  const bool has_none = family.windows == Windows::kAll && reader.json().contains("sliding_window") &&
                        reader.find("sliding_window") == nullptr;
  if (has_none) has_window.assign(has_window.size(), false);
  const bool has_some = std::ranges::count(has_window, true) > 0, has_all = std::ranges::count(has_window, false) == 0;
  const double cap = family.has_softcaps ? softcap_of(reader, "attn_logit_softcapping", kScoreCap) : 0;
  const std::string window = has_some ? mechanism_of(cat("window(", window_of(reader), ")"), cap) : "";
  config.attention = has_all ? window : mechanism_of("full", cap);
  const auto base = [&](const char* field, double usual) { return reader.rate(field, usual, 1e12); };
  const auto of_kind = [&](const char* kind, const char* field, double usual) {
    return family.has_local_positions ? rotary_of_kind(reader, kind, base(field, usual)) : rotary_of(reader);
  };
  const std::string global = print({of_kind("full_attention", "rope_theta", kGlobalBase)});
  const std::string local = print({of_kind("sliding_attention", "rope_local_base_freq", kLocalBase)});
  config.transformer_positions = has_all ? local : global;
  if (has_all) return;
  for (size_t first = 0; first < has_window.size();) {
    size_t end = first;
    while (end < has_window.size() && has_window[end]) ++end;
    if (end > first) {
      const std::string layers = end == first + 1 ? std::to_string(end) : cat(first + 1, "-", end);
      config.attention_layers.push_back(cat("decoder.", layers, "=", window));
      if (local != global) config.positions_layers.push_back(cat("decoder.", layers, "=", local));
    }
    first = end + 1;
  }
}

// The family of a file. Throws an Error that lists the families that are read.
const DecoderFamily& read_family(const Reader& reader) {
  const std::string type = reader.word("model_type", "none");
  std::vector<std::string> known;
  for (const DecoderFamily& family : kDecoderFamilies) {
    if (family.type == type) return family;
    known.emplace_back(family.type);
  }
  known.emplace_back("marian");
  std::string got = cat("'", type, "'");
  if (type == "gemma3") got += ", a model of texts and images";
  reader.refuse("model_type", got, join(known, " or "));
}

}  // namespace

bool is_decoder_folder(const std::filesystem::path& folder) {
  const std::string path = folder / "config.json";
  models::refuse_adapter(folder);
  require_file(path, "model");
  const auto family = text::json_text(text::parse_json_object(read_text_file(path), path), "model_type", path);
  return family && *family != "marian" && *family != "m2m_100";
}

LanguageConfig parse_decoder_config(const std::string& text, const std::string& origin) {
  const Json json = text::parse_json_object(text, origin);
  const Reader reader(json, origin);
  const DecoderFamily& family = read_family(reader);
  require_known_parts(reader, family);
  LanguageConfig config;
  config.dim_emb = reader.number("hidden_size", 65536);
  config.dec_depth = reader.number("num_hidden_layers", 1000);
  config.transformer_heads = reader.number("num_attention_heads", 1024);
  const int64_t keys = reader.find("num_key_value_heads") == nullptr ? config.transformer_heads
                                                                     : reader.number("num_key_value_heads", 1024);
  config.transformer_heads_kv = keys == config.transformer_heads ? 0 : keys;
  const int64_t head = reader.find("head_dim") != nullptr ? reader.number("head_dim", 65536)
                       : family.usual_head > 0            ? family.usual_head
                                                          : config.dim_emb / config.transformer_heads;
  if (head * config.transformer_heads != config.dim_emb) config.transformer_dim_head = head;
  if (family.windows == Windows::kSome) {
    constexpr int64_t kUsual = 256;
    const int64_t scalar =
        reader.find("query_pre_attn_scalar") == nullptr ? kUsual : reader.number("query_pre_attn_scalar", 1'000'000);
    config.attention_scalar = scalar == head ? 0 : static_cast<double>(scalar);
  }
  config.transformer_norm_qk = family.norm_qk;
  config.transformer_dim_ffn = reader.number("intermediate_size", 1 << 20);
  config.norm_epsilon = reader.rate("rms_norm_eps", 1e-6, 1);
  config.transformer_norm = family.norm;
  config.transformer_norm_kind = "rms";
  config.norm_gain = family.norm_gain;
  config.transformer_ffn_activation = activation_of(reader, family);
  config.transformer_biases = family.biases;
  config.embedding_scale = family.embedding_scale;
  config.tied_embeddings = reader.truth("tie_word_embeddings", family.is_usually_tied);
  config.transformer_dropout = 0;
  config.transformer_dropout_attention = reader.rate("attention_dropout", 0, 0.99);
  config.max_positions = reader.number("max_position_embeddings", 1 << 24);
  config.segment_length = std::min(config.max_positions, kLongestSegment);
  config.memory_length = 0;
  config.dim_vocabs = {reader.number("vocab_size", 1 << 24)};
  read_layers(reader, family, config);
  if (family.has_softcaps) config.logit_softcap = softcap_of(reader, "final_logit_softcapping", kLogitCap);
  try {
    validate(config);
  } catch (const Error& error) {
    throw Error(cat(origin, ": ", error.what()));
  }
  return config;
}

}  // namespace fovea::language
