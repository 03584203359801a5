#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_names.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {
namespace {

// The first pattern of the tree that compares positions, or nothing.
std::string_view positional(const Pairs& pairs) {
  if (pairs.op == Pairs::Op::kLeaf) {
    return std::visit([]<class P>(const P&) { return P::kPositional ? P::kName : std::string_view(); }, pairs.leaf);
  }
  for (const Pairs& part : pairs.parts)
    if (const std::string_view name = positional(part); !name.empty()) return name;
  return {};
}

// The first pattern of a spec that compares positions, including those of `keep`, or its source; or an empty text.
std::string_view positional(const AttentionSpec& spec) {
  if (spec.blocks()) return BlockChoice::kName;
  if (spec.indexed()) return IndexedKeys::kName;
  const std::string_view name = positional(spec.pairs());
  return name.empty() && spec.keep ? positional(*spec.keep) : name;
}

// The first pattern of the tree that counts positions from the first key, or nothing.
std::string_view from_start(const Pairs& pairs) {
  if (pairs.op == Pairs::Op::kLeaf) {
    return std::visit(
        []<class P>(const P&) {
          return requires { P::kFromStart; }
          ? P::kName : std::string_view();
        },
        pairs.leaf);
  }
  for (const Pairs& part : pairs.parts)
    if (const std::string_view name = from_start(part); !name.empty()) return name;
  return {};
}

// The tree without its patterns that compare positions; nothing if no limit is left, or no pair. A union has no limit
// as soon as one of its parts has none, so `whole` is kUnion for pairs. An intersection has no pair as soon as one of
// its parts has none, so `whole` is kIntersection for the pairs of `keep`.
std::optional<Pairs> without_positional(const Pairs& pairs, Pairs::Op whole) {
  if (pairs.op == Pairs::Op::kLeaf) return positional(pairs).empty() ? std::optional(pairs) : std::nullopt;
  Pairs left{.op = pairs.op, .leaf = {}, .parts = {}};
  for (const Pairs& part : pairs.parts) {
    if (std::optional<Pairs> kept = without_positional(part, whole)) {
      left.parts.push_back(std::move(*kept));
    } else if (pairs.op == whole) {
      return std::nullopt;
    }
  }
  return left.parts.empty() ? std::nullopt : std::optional(std::move(left));
}

// The tree has an adaptive span.
bool has_span(const Pairs& pairs) {
  if (pairs.op == Pairs::Op::kLeaf) return std::holds_alternative<AdaptiveSpan>(pairs.leaf);
  return std::ranges::any_of(pairs.parts, has_span);
}

// The part of the spec with which an adaptive span does not go, or an empty text.
std::string problem_of_span(const AttentionSpec& spec, AttentionKind kind) {
  if (!has_span(spec.pairs()) && !(spec.keep && has_span(*spec.keep))) return "";
  if (spec.pairs().op != Pairs::Op::kLeaf || !has_span(spec.pairs()))
    return "'span' joins no other pattern; write span(limit,ramp) alone, or span(limit,ramp)+topk(k)";
  if (spec.keep) return "'span' takes topk(k) without keep; leave keep out";
  if (!std::holds_alternative<Softmax>(spec.transform))
    return cat("'span' weighs with softmax; got ",
               std::visit([]<class T>(const T&) { return T::kName; }, spec.transform), ", leave that stage out");
  if (kind == AttentionKind::kCausal) return "";
  return cat("'span' reads the keys before a query, so it needs causal self-attention, such as a decoder's; got ",
             kind == AttentionKind::kCross ? "cross-attention" : "self-attention that is not causal",
             ", use full or random(k) there");
}

// "full or random(k)": what is left for cross-attention.
std::string known_without_positions() {
  const std::vector<SpecName> names = pattern_names();
  std::vector<std::string> forms;
  size_t at = 0;
  for_each_type<Pattern>([&]<class P>(const P&) {
    const SpecName& name = names[at++];
    if (!P::kPositional) forms.push_back(name.arguments.empty() ? name.name : cat(name.name, '(', name.arguments, ')'));
  });
  return join(forms, " or ");
}

}  // namespace

bool compares_positions(const LayerSpec& spec) {
  return std::ranges::any_of(spec, [](const HeadGroup& group) { return !positional(group.spec).empty(); });
}

LayerSpec across_texts(LayerSpec spec) {
  for (HeadGroup& group : spec) {
    AttentionSpec& own = group.spec;
    if (own.clauses() != nullptr || own.blocks() != nullptr || own.indexed() != nullptr) own.source = Pairs{};
    if (auto* route = std::get_if<Routed>(&own.source); route != nullptr && route->is_causal())
      route->members = Routed::Members::kBest;
    if (auto* pairs = std::get_if<Pairs>(&own.source))
      *pairs = without_positional(*pairs, Pairs::Op::kUnion).value_or(Pairs{});
    if (own.keep) own.keep = without_positional(*own.keep, Pairs::Op::kIntersection);
    own = canonical(own);
  }
  return spec;
}

std::string_view counts_from_start(const LayerSpec& spec) {
  for (const HeadGroup& group : spec) {
    std::string_view name = from_start(group.spec.pairs());
    if (name.empty() && group.spec.keep) name = from_start(*group.spec.keep);
    if (!name.empty()) return name;
  }
  return {};
}

const AdaptiveSpan* adaptive_span(const AttentionSpec& spec) {
  return spec.pairs().op == Pairs::Op::kLeaf ? std::get_if<AdaptiveSpan>(&spec.pairs().leaf) : nullptr;
}

void validate(const AttentionSpec& spec, AttentionKind kind) {
  if (const std::string problem = problem_of_span(spec, kind); !problem.empty())
    throw Error(cat("attention '", print(spec), "': ", problem));
  if (spec.clauses() && kind != AttentionKind::kSelf)
    throw Error(cat("attention '", print(spec), "': clauses are those of an encoder's text; use it in the encoder's ",
                    "self-attention alone"));
  if (kind != AttentionKind::kCross) return;
  if (spec.route() && spec.route()->is_causal())
    throw Error(cat("attention '", print(spec), "': 'causal' compares the positions of queries and keys, which belong ",
                    "to different texts in cross-attention; use routed(", spec.route()->clusters, ",",
                    spec.route()->window, ") there"));
  const std::string_view name = positional(spec);
  if (name.empty()) return;
  throw Error(cat("attention '", print(spec), "': '", name,
                  "' compares the positions of queries and keys, which belong to ",
                  "different texts in cross-attention; use ", known_without_positions(),
                  " there, with any selection and transform"));
}

std::string print(const LayerSpec& spec) {
  std::vector<std::string> parts;
  for (const HeadGroup& group : spec)
    parts.push_back((group.num_heads > 0 ? std::to_string(group.num_heads) + "*" : "") + print(group.spec));
  return join(parts, ";");
}

LayerSpec resolve(const LayerSpec& spec, int64_t num_heads) {
  LayerSpec out = spec;
  if (out.size() == 1 && out[0].num_heads == 0) out[0].num_heads = num_heads;
  int64_t total = 0;
  for (const HeadGroup& group : out) total += group.num_heads;
  if (total != num_heads)
    throw Error(cat("attention '", print(spec), "' is for ", total, " heads; the layer has ", num_heads));
  require_groups_fit(out);
  return out;
}

void require_groups_fit(const LayerSpec& spec) {
  for (const HeadGroup& group : spec) {
    const bool same_norm = group.spec.norm == spec[0].spec.norm;
    if (same_norm && group.spec.gate == spec[0].spec.gate) continue;
    throw Error(cat("attention '", print(spec), "': the ", same_norm ? "gate" : "norm",
                    " is over the outputs of all heads together, so every head group must name the same one"));
  }
  const auto has_indexer = [](const HeadGroup& group) { return group.spec.indexed() != nullptr; };
  if (spec.size() > 1 && std::ranges::any_of(spec, has_indexer))
    throw Error(cat("attention '", print(spec),
                    "': the indexer of dsa chooses the keys of all heads of a layer; use it ",
                    "without other head groups, or in some layers alone (--attention-layers)"));
  const auto has_clauses = [](const HeadGroup& group) { return group.spec.clauses() != nullptr; };
  const auto has_route = [](const HeadGroup& group) { return group.spec.route() != nullptr; };
  if (std::ranges::any_of(spec, has_clauses) && std::ranges::any_of(spec, has_route))
    throw Error(cat("attention '", print(spec),
                    "': heads with clauses do not go with routed heads in one layer; use a ",
                    "pattern such as window(16) for the others, or --attention-layers"));
}

LayerSpec without_layer_stages(LayerSpec spec) {
  for (HeadGroup& group : spec) {
    if (group.spec.indexed()) group.spec.source = Pairs{};
    group.spec.gate.reset();
    group.spec.scale.reset();
  }
  return spec;
}

}  // namespace fovea
