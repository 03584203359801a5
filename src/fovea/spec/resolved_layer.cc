#include "fovea/spec/resolved_layer.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

constexpr size_t kMostLayers = 1024;  // that are kept: a service may be sent any

bool has_route(const HeadGroup& group) { return group.spec.route() != nullptr; }

AttentionLayer::Group group_of(const AttentionSpec& spec, int64_t num_heads) {
  const AdaptiveSpan* span = adaptive_span(spec);
  return {num_heads, spec, learns_argument(spec.transform), span == nullptr ? 0 : span->limit};
}

}  // namespace

std::shared_ptr<const AttentionLayer> resolved_layer(const std::string& text, int64_t num_heads) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const AttentionLayer>> cache;
  const std::string key = cat(num_heads, ' ', text);
  const std::scoped_lock lock(mutex);
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  auto layer = std::make_shared<AttentionLayer>();
  layer->text = text;
  LayerSpec spec = resolve(parse_layer_spec(text), num_heads);
  layer->reads = parameters_of(spec);
  // A routed sequence has its own tokens alone as keys, so it has one length.
  layer->positional = compares_positions(spec) || std::ranges::any_of(spec, has_route);
  for (HeadGroup& group : spec) {
    if (group.spec.clauses())
      throw Error(cat("attention '", print(group.spec),
                      "': the operator knows no clauses; give each clause as a sequence, ",
                      "by its offsets, with the mechanism inside it"));
    layer->norm = std::exchange(group.spec.norm, NoNorm{});
    layer->groups.push_back(group_of(group.spec, group.num_heads));
  }
  if (cache.size() >= kMostLayers) cache.clear();
  return cache.emplace(key, std::move(layer)).first->second;
}

std::shared_ptr<const AttentionLayer> layer_of(const AttentionSpec& spec, int64_t num_heads) {
  auto layer = std::make_shared<AttentionLayer>();
  layer->text = print(spec);
  layer->groups.push_back(group_of(canonical(spec), num_heads));
  return layer;
}

}  // namespace fovea
