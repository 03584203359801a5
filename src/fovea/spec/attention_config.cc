#include "fovea/spec/attention_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/across_texts.h"
#include "fovea/spec/adaptive_span.h"
#include "fovea/spec/positions.h"

namespace fovea {
namespace {

struct SublayerName {
  std::string_view name;  // of --attention-NAME and of --attention-layers NAME.LAYERS=SPEC
  std::string AttentionOverride::*replacement;
  AttentionKind kind;
};
constexpr std::array<SublayerName, 3> kSublayers = {{
    {"encoder", &AttentionOverride::attention_encoder, AttentionKind::kSelf},
    {"decoder", &AttentionOverride::attention_decoder, AttentionKind::kCausal},
    {"cross", &AttentionOverride::attention_cross, AttentionKind::kCross},
}};

const SublayerName& entry_of(Sublayer sublayer) { return kSublayers.at(static_cast<size_t>(sublayer)); }

const AttentionSort* sort_of(const AttentionTexts& texts, Sublayer sublayer) {
  for (const AttentionSort& sort : texts.sorts) {
    if (sort.sublayer == sublayer) return &sort;
  }
  return nullptr;
}

// An entry of --attention-layers: layers first ... last of one sort of attention, counted from 1, and their mechanism.
struct LayerOverride {
  Sublayer sublayer;
  int64_t first, last;
  std::string spec;
};

int64_t read_layer(std::string_view digits, const std::string& text) {
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (error != std::errc() || end != digits.data() + digits.size() || layer < 1)
    throw Error(cat("got '", text, "'; expected layers from 1 as in decoder.1-2=window(16) or decoder.6=topk(8)"));
  return layer;
}

// The part that a model of one stack lacks.
std::string_view absent_part(const AttentionTexts& texts) {
  return sort_of(texts, Sublayer::kDecoder) == nullptr ? "decoder" : "encoder";
}

Sublayer read_sublayer(const std::string& where, const std::string& text, const AttentionTexts& texts) {
  std::vector<std::string> known;
  for (const AttentionSort& sort : texts.sorts) {
    known.emplace_back(name_of(sort.sublayer));
    if (known.back() == where) return sort.sublayer;
  }
  for (const SublayerName& sublayer : kSublayers) {
    if (sublayer.name == where)
      throw Error(cat("got '", where, "' in '", text, "'; the model has no ", absent_part(texts), ", only ",
                      join(known, ", ")));
  }
  throw Error(cat("got '", where, "' in '", text, "'; expected ", known.size() > 1 ? "one of " : "", join(known, ", "),
                  did_you_mean(where, known)));
}

LayerOverride read_layer_override(const std::string& text, const AttentionTexts& texts) {
  const size_t dot = text.find('.'), equals = text.find('=');
  if (dot == std::string::npos || equals == std::string::npos || dot > equals)
    throw Error(cat("got '", text, "'; expected WHERE.LAYERS=SPEC, e.g. decoder.1-2=window(16)"));
  const std::string layers = text.substr(dot + 1, equals - dot - 1);
  const Sublayer sublayer = read_sublayer(text.substr(0, dot), text, texts);
  const size_t dash = layers.find('-');
  const int64_t first = read_layer(std::string_view(layers).substr(0, dash), text);
  const int64_t last = dash == std::string::npos ? first : read_layer(std::string_view(layers).substr(dash + 1), text);
  if (last < first)
    throw Error(cat("got layers ", layers, " in '", text, "'; the second number must not be less than the first"));
  return {sublayer, first, last, text.substr(equals + 1)};
}

// The text of a sort's attention without --attention-layers. In cross-attention, --attention falls back to what does
// not compare the positions of two texts.
std::string sort_text(const AttentionTexts& texts, const AttentionSort& sort) {
  if (!sort.attention.empty()) return sort.attention;
  if (kind_of(sort.sublayer) != AttentionKind::kCross) return texts.attention;
  const LayerSpec spec = parse_layer_spec(texts.attention), cross = across_texts(spec);
  return cross == spec ? texts.attention : print(cross);
}

// The text that rules layer `layer` (from 0): the last override that names it, else its sort's.
std::string text_of(const AttentionTexts& texts, const AttentionSort& sort, int64_t layer) {
  std::string text = sort_text(texts, sort);
  for (const std::string& entry : texts.attention_layers) {
    const LayerOverride layers = read_layer_override(entry, texts);
    if (layers.sublayer == sort.sublayer && layers.first <= layer + 1 && layer + 1 <= layers.last) text = layers.spec;
  }
  return text;
}

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
std::string problem_of_spans(const LayerSpec& spec, const AttentionTexts& texts) {
  if (longest_span(spec) == 0) return "";
  if (const std::string_view scheme = scheme_of_scores(texts.positions); !scheme.empty())
    return cat("'span' brings its own table of distances; got --transformer-positions ", texts.positions,
               ", expected positions without ", scheme, ", such as rotary or none");
  const bool all =
      std::ranges::all_of(spec, [](const HeadGroup& group) { return adaptive_span(group.spec) != nullptr; });
  if (texts.span_cold_cache != "none" && !all)
    return "--span-cold-cache zeros needs span(limit,ramp) in all heads of a layer, as other heads would see the zeros";
  return "";
}

// Throws an Error if a mechanism cannot be used in this sort of attention.
void check_spec(const std::string& text, Sublayer sublayer, const AttentionTexts& texts) {
  const AttentionKind kind = kind_of(sublayer);
  const LayerSpec spec = resolve(parse_layer_spec(text), texts.heads);
  for (const HeadGroup& group : spec) {
    validate(group.spec, kind);
    const bool needs_shared = group.spec.route && (kind == AttentionKind::kCausal || group.spec.route->is_causal());
    if (needs_shared && !shares_keys(*group.spec.route, kind, texts.routing_keys))
      throw Error(cat("attention '", print(group.spec), "': a limit to earlier keys needs keys that are the queries; ",
                      "got --routing-keys own, expected auto or shared"));
  }
  if (const std::string problem = problem_of_spans(spec, texts); !problem.empty())
    throw Error(cat("attention '", print(spec), "': ", problem));
}

// Throws an Error if a sort of attention cannot use --attention. If other sorts can, the message has one reason and the
// options to set; otherwise every reason once.
void check_default(const AttentionTexts& texts) {
  std::vector<std::string> wrong, flags;
  size_t users = 0;
  for (const AttentionSort& sort : texts.sorts) {
    if (!sort.attention.empty()) continue;
    ++users;
    try {
      check_spec(sort_text(texts, sort), sort.sublayer, texts);
    } catch (const SpecError&) {
      throw;
    } catch (const Error& error) {
      flags.push_back(cat("--attention-", name_of(sort.sublayer)));
      if (std::find(wrong.begin(), wrong.end(), error.what()) == wrong.end()) wrong.emplace_back(error.what());
    }
  }
  if (wrong.empty()) return;
  if (flags.size() < users) throw Error(cat(wrong.front(), " (set ", join(flags, " and "), ")"));
  throw Error(join(wrong, "; "));
}

// The part of a text that --sparsify train uses outside training.
std::string dense_text(const std::string& text) { return print(without_selection(parse_layer_spec(text))); }

// One sort's mechanisms as they are outside training, where selections of the other sorts are to act.
void make_dense(AttentionTexts& texts, AttentionSort& sort) {
  sort.attention = dense_text(sort_text(texts, sort));
  for (std::string& entry : texts.attention_layers) {
    const LayerOverride layers = read_layer_override(entry, texts);
    if (layers.sublayer == sort.sublayer) entry = cat(entry.substr(0, entry.find('=') + 1), dense_text(layers.spec));
  }
}

void refuse_absent_parts(const AttentionTexts& texts, const AttentionOverride& mechanisms) {
  for (size_t i = 0; i < kSublayers.size(); ++i) {
    if ((mechanisms.*kSublayers[i].replacement).empty() || sort_of(texts, static_cast<Sublayer>(i)) != nullptr)
      continue;
    throw UsageError(cat("--attention-", kSublayers[i].name, ": the model has no ", absent_part(texts),
                         "; use --attention or --attention-", name_of(texts.sorts.front().sublayer)));
  }
}

// Whether `holds` for the mechanism of some head group in this sort of attention.
template <class F>
bool some_group(const AttentionTexts& texts, Sublayer sublayer, const F& holds) {
  const AttentionSort* sort = sort_of(texts, sublayer);
  for (int64_t layer = 0; sort != nullptr && layer < sort->depth; ++layer) {
    for (const HeadGroup& group : attention_of(texts, sublayer, layer))
      if (holds(group.spec)) return true;
  }
  return false;
}

// Adds the options that are set for a mechanism, unless some head group of the model has it.
template <class Options, class F>
void add_idle_options(const AttentionTexts& texts, const Options& options, std::string_view mechanism, const F& is_it,
                      Problems& problems) {
  const std::vector<std::string_view> changed = changed_fields(options);
  const auto has_it = [&](const AttentionSort& sort) { return some_group(texts, sort.sublayer, is_it); };
  if (changed.empty() || std::ranges::any_of(texts.sorts, has_it)) return;
  for (const std::string_view name : changed)
    problems.add(cat("--", name, " is an option of ", mechanism, ", but the model does not use it; leave it out"));
}

}  // namespace

std::string_view name_of(Sublayer sublayer) { return entry_of(sublayer).name; }

AttentionKind kind_of(Sublayer sublayer) { return entry_of(sublayer).kind; }

void add_attention_problems(const AttentionTexts& texts, Problems& problems) {
  problems.add_thrown_by("attention", [&] { check_default(texts); });
  for (const AttentionSort& sort : texts.sorts) {
    if (sort.attention.empty()) continue;
    problems.add_thrown_by(cat("attention-", name_of(sort.sublayer)),
                           [&] { check_spec(sort.attention, sort.sublayer, texts); });
  }
  for (const std::string& entry : texts.attention_layers) {
    problems.add_thrown_by("attention-layers", [&] {
      const LayerOverride layers = read_layer_override(entry, texts);
      const int64_t depth = sort_of(texts, layers.sublayer)->depth;
      if (layers.last > depth)
        throw Error(cat("got layer ", layers.last, " in '", entry, "'; the model has ", depth, " there"));
      check_spec(layers.spec, layers.sublayer, texts);
    });
  }
}

void refuse_idle_options(const AttentionTexts& texts, const StackConfig& config) {
  Problems problems;
  add_idle_options<SpanConfig>(
      texts, config, "span(limit,ramp)", [](const AttentionSpec& spec) { return adaptive_span(spec) != nullptr; },
      problems);
  add_idle_options<RoutingConfig>(
      texts, config, "routed(c,w)", [](const AttentionSpec& spec) { return spec.route.has_value(); }, problems);
  problems.throw_if_any();
}

bool uses_clauses(const AttentionTexts& texts) {
  return some_group(texts, Sublayer::kEncoder, [](const AttentionSpec& spec) { return spec.clauses.has_value(); });
}

bool routes_whole_segments(const AttentionTexts& texts) {
  return some_group(texts, Sublayer::kDecoder, [](const AttentionSpec& spec) {
    return spec.route && spec.route->members == Routed::Members::kBest;
  });
}

LayerSpec attention_of(const AttentionTexts& texts, Sublayer sublayer, int64_t layer) {
  const AttentionSort* sort = sort_of(texts, sublayer);
  if (sort == nullptr) throw Error(cat("the model has no ", name_of(sublayer), " attention"));
  return resolve(parse_layer_spec(text_of(texts, *sort, layer)), texts.heads);
}

AttentionTexts with_attention(AttentionTexts texts, const AttentionOverride& mechanisms) {
  refuse_absent_parts(texts, mechanisms);
  if (!mechanisms.attention.empty()) {
    texts.attention = mechanisms.attention;
    for (AttentionSort& sort : texts.sorts) sort.attention.clear();
    texts.attention_layers.clear();
  }
  for (AttentionSort& sort : texts.sorts) {
    const std::string& spec = mechanisms.*entry_of(sort.sublayer).replacement;
    if (spec.empty()) {
      if (mechanisms.attention.empty() && texts.sparsify == "train") make_dense(texts, sort);
      continue;
    }
    sort.attention = spec;
    std::erase_if(texts.attention_layers, [&](const std::string& entry) {
      return read_layer_override(entry, texts).sublayer == sort.sublayer;
    });
  }
  texts.sparsify = "both";
  return texts;
}

void log_fallback(const AttentionTexts& texts) {
  const AttentionSort* cross = sort_of(texts, Sublayer::kCross);
  if (cross == nullptr || !cross->attention.empty()) return;
  const std::string text = sort_text(texts, *cross);
  if (text == texts.attention) return;
  log::info(cat("[model] cross-attention uses '", text, "' for --attention '", texts.attention,
                "', because its queries and keys belong to different texts; --attention-cross sets another one"));
}

void set_attention(const AttentionTexts& texts, AttentionConfig& config) {
  config.attention = texts.attention;
  config.attention_layers = texts.attention_layers;
  config.sparsify = texts.sparsify;
}

LayerSpec within_reach(LayerSpec spec, int64_t keys) {
  for (HeadGroup& group : spec) {
    if (const AdaptiveSpan* span = adaptive_span(group.spec)) {
      group.spec.pairs.leaf = AdaptiveSpan{std::clamp<int64_t>(keys - 1, 1, span->limit), span->ramp};
      continue;
    }
    Pairs reach{.op = Pairs::Op::kLeaf, .leaf = Local{keys}, .parts = {}};
    group.spec.pairs = {.op = Pairs::Op::kIntersection, .leaf = {}, .parts = {group.spec.pairs, std::move(reach)}};
    group.spec = canonical(group.spec);
  }
  return spec;
}

LayerSpec without_selection(LayerSpec spec) {
  for (HeadGroup& group : spec) group.spec.select.reset();
  return spec;
}

}  // namespace fovea
