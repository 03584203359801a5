#include "fovea/spec/model_config.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"

namespace fovea {
namespace {

// One sort of attention: the fields that are about it.
struct SublayerFields {
  Sublayer sublayer;
  std::string_view name;  // of --attention-NAME and of --attention-layers NAME.LAYERS=SPEC
  std::string ModelConfig::*attention;
  std::string AttentionOverride::*replacement;
  int64_t ModelConfig::*depth;
  AttentionKind kind;
};
constexpr std::array<SublayerFields, 3> kSublayers = {{
    {Sublayer::kEncoder, "encoder", &ModelConfig::attention_encoder, &AttentionOverride::attention_encoder,
     &ModelConfig::enc_depth, AttentionKind::kSelf},
    {Sublayer::kDecoder, "decoder", &ModelConfig::attention_decoder, &AttentionOverride::attention_decoder,
     &ModelConfig::dec_depth, AttentionKind::kCausal},
    {Sublayer::kCross, "cross", &ModelConfig::attention_cross, &AttentionOverride::attention_cross,
     &ModelConfig::dec_depth, AttentionKind::kCross},
}};

const SublayerFields& fields_of(Sublayer sublayer) { return kSublayers.at(static_cast<size_t>(sublayer)); }

// An entry of --attention-layers: layers first ... last of one sort of attention, counted from 1, and their mechanism.
struct LayerOverride {
  const SublayerFields* sublayer;
  int64_t first, last;
  std::string spec;
};

int64_t read_layer(std::string_view digits, const std::string& text) {
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (error != std::errc() || end != digits.data() + digits.size() || layer < 1)
    throw Error(cat("got '", text, "'; expected layers from 1 as in encoder.1-2=window(16) or cross.6=topk(8)"));
  return layer;
}

LayerOverride read_layer_override(const std::string& text) {
  const size_t dot = text.find('.'), equals = text.find('=');
  if (dot == std::string::npos || equals == std::string::npos || dot > equals)
    throw Error(cat("got '", text, "'; expected WHERE.LAYERS=SPEC, e.g. encoder.1-2=window(16)"));
  const std::string where = text.substr(0, dot), layers = text.substr(dot + 1, equals - dot - 1);
  const SublayerFields* found = nullptr;
  std::vector<std::string> known;
  for (const SublayerFields& sublayer : kSublayers) {
    known.emplace_back(sublayer.name);
    if (sublayer.name == where) found = &sublayer;
  }
  if (!found)
    throw Error(
        cat("got '", where, "' in '", text, "'; expected one of ", join(known, ", "), did_you_mean(where, known)));
  const size_t dash = layers.find('-');
  const int64_t first = read_layer(std::string_view(layers).substr(0, dash), text);
  const int64_t last = dash == std::string::npos ? first : read_layer(std::string_view(layers).substr(dash + 1), text);
  if (last < first)
    throw Error(cat("got layers ", layers, " in '", text, "'; the second number must not be less than the first"));
  return {found, first, last, text.substr(equals + 1)};
}

// The text that rules layer `layer` (from 0): the last override that names it, else its sort's, else the default.
std::string text_of(const ModelConfig& config, const SublayerFields& sublayer, int64_t layer) {
  std::string text = (config.*sublayer.attention).empty() ? config.attention : config.*sublayer.attention;
  for (const std::string& entry : config.attention_layers) {
    const LayerOverride layers = read_layer_override(entry);
    if (layers.sublayer == &sublayer && layers.first <= layer + 1 && layer + 1 <= layers.last) text = layers.spec;
  }
  return text;
}

void check_spec(const std::string& text, const SublayerFields& sublayer, int64_t heads) {
  for (const HeadGroup& group : resolve(parse_layer_spec(text), heads)) validate(group.spec, sublayer.kind);
}

// What is wrong with --attention, each once, with the sorts of attention that need another if some can use it.
void check_default(const ModelConfig& config) {
  std::vector<std::string> wrong, flags;
  size_t users = 0;
  for (const SublayerFields& sublayer : kSublayers) {
    if (!(config.*sublayer.attention).empty()) continue;
    ++users;
    try {
      check_spec(config.attention, sublayer, config.transformer_heads);
    } catch (const SpecError&) {
      throw;
    } catch (const Error& error) {
      flags.push_back(cat("--attention-", sublayer.name));
      if (std::find(wrong.begin(), wrong.end(), error.what()) == wrong.end()) wrong.emplace_back(error.what());
    }
  }
  if (wrong.empty()) return;
  const std::string advice = flags.size() < users ? cat(" (set ", join(flags, " and "), ")") : "";
  throw Error(join(wrong, "; ") + advice);
}

void check_attention(const ModelConfig& config, Problems& problems) {
  problems.add_thrown_by("attention", [&] { check_default(config); });
  for (const SublayerFields& sublayer : kSublayers) {
    const std::string& text = config.*sublayer.attention;
    if (text.empty()) continue;
    problems.add_thrown_by(cat("attention-", sublayer.name),
                           [&] { check_spec(text, sublayer, config.transformer_heads); });
  }
  for (const std::string& entry : config.attention_layers) {
    problems.add_thrown_by("attention-layers", [&] {
      const LayerOverride layers = read_layer_override(entry);
      const int64_t depth = config.*layers.sublayer->depth;
      if (layers.last > depth)
        throw Error(cat("got layer ", layers.last, " in '", entry, "'; the model has ", depth, " there"));
      check_spec(layers.spec, *layers.sublayer, config.transformer_heads);
    });
  }
}

}  // namespace

void validate(const ModelConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  problems.add_if(
      config.transformer_heads > 0 && config.dim_emb % config.transformer_heads != 0,
      cat("--dim-emb ", config.dim_emb, " is not a multiple of --transformer-heads ", config.transformer_heads));
  problems.add_if(
      config.transformer_positions == "sinusoidal" && config.dim_emb % 2 != 0,
      cat("--dim-emb ", config.dim_emb, " is odd; --transformer-positions sinusoidal needs pairs of sine and ",
          "cosine, so choose an even width or learned positions"));
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  problems.add_if(sizes.empty() || sizes.size() > 2,
                  cat("--dim-vocabs has ", sizes.size(), " numbers; expected one or two"));
  for (const int64_t size : sizes) problems.add_if(size < 0, cat("--dim-vocabs ", size, " is negative"));
  problems.add_if(
      sizes.size() == 2 && sizes[0] != sizes[1] && (config.tied_embeddings_src || config.tied_embeddings_all),
      cat("--tied-embeddings-", config.tied_embeddings_all ? "all" : "src", " needs one vocabulary for both ",
          "sides; --dim-vocabs are ", sizes.empty() ? 0 : sizes.front(), " and ", sizes.empty() ? 0 : sizes.back()));
  check_attention(config, problems);
  problems.throw_if_any();
}

namespace {

// What --sparsify train leaves of a text outside training.
std::string dense_text(const std::string& text) { return print(without_selection(parse_layer_spec(text))); }

// One sort's mechanisms as they are outside training, where selections of the other sorts are to act.
void make_dense(ModelConfig& config, const SublayerFields& sublayer) {
  std::string& text = config.*sublayer.attention;
  text = dense_text(text.empty() ? config.attention : text);
  for (std::string& entry : config.attention_layers) {
    const LayerOverride layers = read_layer_override(entry);
    if (layers.sublayer == &sublayer) entry = cat(entry.substr(0, entry.find('=') + 1), dense_text(layers.spec));
  }
}

}  // namespace

ModelConfig with_attention(ModelConfig config, const AttentionOverride& mechanisms) {
  if (!mechanisms.attention.empty()) {
    config.attention = mechanisms.attention;
    for (const SublayerFields& sublayer : kSublayers) (config.*sublayer.attention).clear();
    config.attention_layers.clear();
  }
  for (const SublayerFields& sublayer : kSublayers) {
    const std::string& spec = mechanisms.*sublayer.replacement;
    if (spec.empty()) {
      if (mechanisms.attention.empty() && config.sparsify == "train") make_dense(config, sublayer);
      continue;
    }
    config.*sublayer.attention = spec;
    std::erase_if(config.attention_layers,
                  [&](const std::string& entry) { return read_layer_override(entry).sublayer == &sublayer; });
  }
  config.sparsify = "both";
  return config;
}

LayerSpec attention_of(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  return resolve(parse_layer_spec(text_of(config, fields_of(sublayer), layer)), config.transformer_heads);
}

int64_t longest_text(const ModelConfig& config, int64_t limit) {
  return config.transformer_positions == "learned" ? std::min(limit, config.max_positions - 1) : limit;
}

LayerSpec without_selection(LayerSpec spec) {
  for (HeadGroup& group : spec) group.spec.select.reset();
  return spec;
}

}  // namespace fovea
