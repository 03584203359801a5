#include "fovea/spec/model_config.h"

#include <algorithm>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/spec/adaptive_span.h"
#include "fovea/spec/layer_override.h"
#include "fovea/spec/positions.h"

namespace fovea {
namespace {

// The first scheme of --transformer-positions that adds to scores, or nothing. A text that does not parse is refused
// elsewhere.
std::string_view scheme_of_scores(const std::string& positions) {
  try {
    for (const PositionScheme& scheme : parse_positions(positions)) {
      const auto [act, name] = std::visit([]<class S>(const S&) { return std::pair(S::kAct, S::kName); }, scheme);
      if (act == PositionsAct::kOnScores) return name;
    }
  } catch (const UsageError&) {
    return {};
  }
  return {};
}

// The error in a layer's adaptive spans beside the rest of the model, or an empty text.
std::string problem_of_spans(const LayerSpec& spec, const ModelConfig& config) {
  if (longest_span(spec) == 0) return "";
  if (const std::string_view scheme = scheme_of_scores(config.transformer_positions); !scheme.empty())
    return cat("'span' brings its own table of distances; got --transformer-positions ", config.transformer_positions,
               ", expected positions without ", scheme, ", such as rotary or none");
  const bool all =
      std::ranges::all_of(spec, [](const HeadGroup& group) { return adaptive_span(group.spec) != nullptr; });
  if (config.span_cold_cache != "none" && !all)
    return "--span-cold-cache zeros needs span(limit,ramp) in all heads of a layer, as other heads would see the zeros";
  return "";
}

// The error in a routed head group whose topk keeps patterns although queries and keys are other members of a cluster,
// or an empty text.
std::string problem_of_own_keys(const AttentionSpec& spec, AttentionKind kind, const ModelConfig& config) {
  if (!spec.route() || !limits_own_keys(*spec.route(), kind, config.routing_keys)) return "";
  if (!spec.keep) return "";
  AttentionSpec only_selection;
  only_selection.selection = spec.selection;
  return cat(
      "keep= compares the ranks of queries and keys in a cluster, which differ with --routing-keys own; got keep=",
      print(*spec.keep), ", expected ", print(only_selection), " or --routing-keys shared");
}

// Throws an Error if the model cannot use a mechanism there.
void check_spec(const std::string& text, Sublayer sublayer, const ModelConfig& config) {
  const AttentionKind kind = kind_of(sublayer);
  const LayerSpec spec = resolve(parse_layer_spec(text), config.transformer_heads);
  for (const HeadGroup& group : spec) {
    validate(group.spec, kind);
    if (const std::string problem = problem_of_own_keys(group.spec, kind, config); !problem.empty())
      throw Error(cat("attention '", print(group.spec), "': ", problem));
  }
  if (const std::string problem = problem_of_spans(spec, config); !problem.empty())
    throw Error(cat("attention '", print(spec), "': ", problem));
}

// Throws an Error if a sublayer without a mechanism of its own cannot use --attention. If other sublayers can, the
// message has one reason and the options to set; otherwise every reason once.
void check_default(const ModelConfig& config) {
  std::vector<std::string> wrong, flags;
  size_t users = 0;
  for (const Sublayer sublayer : sublayers_of(config)) {
    if (!(config.*option_of(sublayer)).empty()) continue;
    ++users;
    try {
      check_spec(sublayer_text(config, sublayer), sublayer, config);
    } catch (const SpecError&) {
      throw;
    } catch (const Error& error) {
      flags.push_back(cat("--attention-", name_of(sublayer)));
      if (std::find(wrong.begin(), wrong.end(), error.what()) == wrong.end()) wrong.emplace_back(error.what());
    }
  }
  if (wrong.empty()) return;
  if (flags.size() < users) throw Error(cat(wrong.front(), " (set ", join(flags, " and "), ")"));
  throw Error(join(wrong, "; "));
}

void add_vocabulary_problems(const ModelConfig& config, Problems& problems) {
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  const bool one = depth_of(config, Sublayer::kCross) == 0;
  problems.add_if(sizes.empty() || sizes.size() > (one ? 1 : 2),
                  cat("--dim-vocabs has ", sizes.size(), " numbers; expected ", one ? "one" : "one or two"));
  for (const int64_t size : sizes) problems.add_if(size < 0, cat("--dim-vocabs ", size, " is negative"));
  problems.add_if(
      sizes.size() == 2 && sizes[0] != sizes[1] && (config.tied_embeddings_src || config.tied_embeddings_all),
      cat("--tied-embeddings-", config.tied_embeddings_all ? "all" : "src", " needs one vocabulary for both ",
          "sides; --dim-vocabs are ", sizes.empty() ? 0 : sizes.front(), " and ", sizes.empty() ? 0 : sizes.back()));
}

// A decoder without self-attention has no mechanism there.
void add_recurrence_problems(const ModelConfig& config, Problems& problems) {
  problems.add_if(has_recurrent_decoder(config) && !config.attention_decoder.empty(),
                  cat("--attention-decoder: got '", config.attention_decoder,
                      "'; a decoder with --transformer-decoder-autoreg ssru has no self-attention, so leave it out"));
}

}  // namespace

void add_attention_problems(const ModelConfig& config, Problems& problems) {
  problems.add_thrown_by("attention", [&] { check_default(config); });
  for (const Sublayer sublayer : sublayers_of(config)) {
    const std::string& own = config.*option_of(sublayer);
    if (own.empty()) continue;
    problems.add_thrown_by(cat("attention-", name_of(sublayer)), [&] { check_spec(own, sublayer, config); });
  }
  for (const std::string& entry : config.attention_layers) {
    problems.add_thrown_by("attention-layers", [&] {
      const LayerOverride layers = read_layer_override(entry, config);
      const int64_t depth = depth_of(config, layers.sublayer);
      if (layers.last > depth)
        throw Error(cat("got layer ", layers.last, " in '", entry, "'; the model has ", depth, " there"));
      check_spec(layers.spec, layers.sublayer, config);
    });
  }
}

void add_problems(const ModelConfig& config, Media media, Problems& problems) {
  add_stack_problems(config, media, problems);
  add_vocabulary_problems(config, problems);
  add_recurrence_problems(config, problems);
  add_positions_problems(config, problems);
  add_attention_problems(config, problems);
}

bool has_recurrent_decoder(const ModelConfig& config) { return config.transformer_decoder_autoreg == "ssru"; }

}  // namespace fovea
