#include <algorithm>
#include <array>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/layer_override.h"
#include "fovea/spec/model_config.h"

namespace fovea {
namespace {

// The text that rules layer `layer` (from 0): the last override that names it, else its sublayer's.
std::string layer_text(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  std::string text = sublayer_text(config, sublayer);
  for (const std::string& entry : config.attention_layers) {
    const LayerOverride layers = read_layer_override(entry, config);
    if (layers.sublayer == sublayer && layers.first <= layer + 1 && layer + 1 <= layers.last) text = layers.spec;
  }
  return text;
}

// The text of a mechanism outside training under --sparsify train.
std::string dense_text(const std::string& text) { return print(without_selection(parse_layer_spec(text))); }

// Gives a sublayer the mechanisms that it has outside training, where selections of other sublayers are to act.
void make_dense(ModelConfig& config, Sublayer sublayer) {
  config.*option_of(sublayer) = dense_text(sublayer_text(config, sublayer));
  for (std::string& entry : config.attention_layers) {
    const LayerOverride layers = read_layer_override(entry, config);
    if (layers.sublayer == sublayer) entry = cat(entry.substr(0, entry.find('=') + 1), dense_text(layers.spec));
  }
}

struct Replacement {
  Sublayer sublayer;
  const std::string& spec;  // empty: none
};
std::array<Replacement, 3> replacements(const AttentionOverride& mechanisms) {
  return {{{Sublayer::kEncoder, mechanisms.attention_encoder},
           {Sublayer::kDecoder, mechanisms.attention_decoder},
           {Sublayer::kCross, mechanisms.attention_cross}}};
}

void replace(ModelConfig& config, const Replacement& replacement) {
  config.*option_of(replacement.sublayer) = replacement.spec;
  std::erase_if(config.attention_layers, [&](const std::string& entry) {
    return read_layer_override(entry, config).sublayer == replacement.sublayer;
  });
}

// Whether `holds` for the mechanism of some head group in this sublayer.
template <class F>
bool some_group(const ModelConfig& config, Sublayer sublayer, const F& holds) {
  for (int64_t layer = 0; layer < depth_of(config, sublayer); ++layer) {
    for (const HeadGroup& group : attention_of(config, sublayer, layer))
      if (holds(group.spec)) return true;
  }
  return false;
}

// Adds the options that are set for a mechanism, unless some head group of the model has it.
template <class Options, class F>
void add_idle_options(const ModelConfig& config, std::string_view mechanism, const F& is_it, Problems& problems) {
  const std::vector<std::string_view> changed = changed_fields<Options>(config);
  const auto has_it = [&](Sublayer sublayer) { return some_group(config, sublayer, is_it); };
  if (changed.empty() || std::ranges::any_of(sublayers_of(config), has_it)) return;
  for (const std::string_view name : changed)
    problems.add(cat("--", name, " is an option of ", mechanism, ", but the model does not use it; leave it out"));
}

}  // namespace

void refuse_idle_options(const ModelConfig& config) {
  Problems problems;
  add_idle_options<SpanConfig>(
      config, "span(limit,ramp)", [](const AttentionSpec& spec) { return adaptive_span(spec) != nullptr; }, problems);
  add_idle_options<RoutingConfig>(
      config, "routed(c,w)", [](const AttentionSpec& spec) { return spec.route() != nullptr; }, problems);
  add_idle_options<IndexerConfig>(
      config, "dsa(k)", [](const AttentionSpec& spec) { return spec.indexed() != nullptr; }, problems);
  const auto selects = [](const AttentionSpec& spec) { return spec.selects() || spec.keep; };
  const auto has_selection = [&](Sublayer sublayer) { return some_group(config, sublayer, selects); };
  problems.add_if(
      config.sparsify != AttentionConfig().sparsify && std::ranges::none_of(sublayers_of(config), has_selection),
      cat("--sparsify ", config.sparsify, " is an option of topk(k) and top-p(p), but the model does not use ",
          "them; leave it out"));
  problems.add_if(config.routing_keys == "own" && config.routing_self != RoutingConfig().routing_self,
                  "--routing-self is an option of keys that are the queries, but --routing-keys is own; leave it out");
  problems.throw_if_any();
}

int64_t depth_of(const ModelConfig& config, Sublayer sublayer) {
  if (sublayer == Sublayer::kEncoder) return config.enc_depth;
  if (sublayer == Sublayer::kDecoder && has_recurrent_decoder(config)) return 0;
  return sublayer == Sublayer::kCross && config.enc_depth == 0 ? 0 : config.dec_depth;
}

LayerSpec attention_of(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  if (depth_of(config, sublayer) == 0) throw Error(cat("the model has no ", name_of(sublayer), " attention"));
  return resolve(parse_layer_spec(layer_text(config, sublayer, layer)), config.transformer_heads);
}

ModelConfig with_attention(ModelConfig config, const AttentionOverride& mechanisms) {
  for (const auto& [sublayer, spec] : replacements(mechanisms)) {
    if (!spec.empty() && depth_of(config, sublayer) == 0)
      throw UsageError(cat("--attention-", name_of(sublayer), ": the model has no ", absent_part(config),
                           "; use --attention or --attention-", name_of(sublayers_of(config).front())));
  }
  if (!mechanisms.attention.empty()) {
    config.attention = mechanisms.attention;
    for (const Sublayer sublayer : sublayers_of(config)) (config.*option_of(sublayer)).clear();
    config.attention_layers.clear();
  }
  for (const Replacement& replacement : replacements(mechanisms)) {
    if (!replacement.spec.empty()) {
      replace(config, replacement);
    } else if (mechanisms.attention.empty() && config.sparsify == "train" &&
               depth_of(config, replacement.sublayer) > 0) {
      make_dense(config, replacement.sublayer);
    }
  }
  config.sparsify = "both";
  Problems problems;
  add_attention_problems(config, problems);
  problems.throw_if_any();
  std::vector<std::string> open;
  for (const Sublayer sublayer : sublayers_of(config)) {
    const auto is_open = [](const AttentionSpec& spec) { return lacks_bias(spec); };
    if (some_group(config, sublayer, is_open)) open.emplace_back(name_of(sublayer));
  }
  problems.add_if(
      !open.empty(),
      cat("--attention: training sets the bias of sigmoid to -ln(greatest length), and this model is trained (",
          join(open, ", "), "); give the number, such as ", print(with_bias(parse_layer_spec(Sigmoid::kName), 1024)),
          " for 1,024 keys"));
  problems.throw_if_any();
  return config;
}

void log_fallback(const ModelConfig& config) {
  if (depth_of(config, Sublayer::kCross) == 0 || !config.attention_cross.empty()) return;
  const std::string text = sublayer_text(config, Sublayer::kCross);
  if (text == config.attention) return;
  log::info(cat("[model] cross-attention uses '", text, "' for --attention '", config.attention,
                "', because its queries and keys belong to different texts; --attention-cross sets another one"));
}

bool uses_clauses(const ModelConfig& config) {
  return some_group(config, Sublayer::kEncoder, [](const AttentionSpec& spec) { return spec.clauses() != nullptr; });
}

bool routes_whole_segments(const ModelConfig& config) {
  return some_group(config, Sublayer::kDecoder, [](const AttentionSpec& spec) {
    return spec.route() && spec.route()->members == Routed::Members::kBest;
  });
}

}  // namespace fovea
