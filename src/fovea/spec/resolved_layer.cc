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

AttentionLayer::Group group_of(AttentionSpec spec, int64_t num_heads) {
  const AdaptiveSpan* span = adaptive_span(spec);
  return {num_heads, spec, learns_argument(spec.transform), span == nullptr ? 0 : span->limit};
}

}  // namespace

AttentionLayerPointer resolved_layer(const LayerSpec& given, int64_t num_heads) {
  auto layer = std::make_shared<AttentionLayer>();
  layer->text = given.size() == 1 ? print(given.front().spec) : print(given);  // without the number of heads
  LayerSpec spec = resolve(given, num_heads);
  layer->reads = parameters_of(spec);
  // A routed sequence has its own tokens alone as keys, so it has one length.
  layer->positional = compares_positions(spec) || std::ranges::any_of(spec, has_route);
  for (HeadGroup& group : spec) {
    if (group.spec.clauses())
      throw Error(cat("attention '", print(group.spec),
                      "': the operator knows no clauses; give each clause as a sequence, ",
                      "by its offsets, with the mechanism inside it"));
    if (group.spec.indexed())
      throw Error(
          cat("attention '", print(group.spec),
              "': a layer learns its indexer, so that the function of q, k and v does not have it; train a model ",
              "with it, or choose keys by index_topk and give them as indices"));
    if (group.spec.gate)
      throw Error(cat("attention '", print(group.spec),
                      "': the gate reads a layer's input, so that the function of q, ",
                      "k and v does not have it; use a layer, such as fovea.Attention, or leave +gate out"));
    if (group.spec.scale)
      throw Error(
          cat("attention '", print(group.spec),
              "': a layer learns the factor of its queries, so that the function of q, k and v does not have it; ",
              "use a layer, such as fovea.Attention, or leave +scaled out and multiply q"));
    if (lacks_bias(group.spec))
      throw Error(cat("attention '", print(group.spec),
                      "': training sets the bias of sigmoid to -ln(greatest length), ",
                      "and here no such length is known; give the number, such as ",
                      print(with_bias({group}, 1024).front().spec), " for 1,024 keys"));
    layer->norm = std::exchange(group.spec.norm, NoNorm{});
    layer->groups.push_back(group_of(group.spec, group.num_heads));
    if (group.spec.blocks()) group.spec.source = Pairs{};
    layer->listed.push_back(group_of(group.spec, group.num_heads));
  }
  return layer;
}

AttentionLayerPointer resolved_layer(const std::string& text, int64_t num_heads) {
  static std::mutex mutex;
  static std::unordered_map<std::string, AttentionLayerPointer> cache;
  const std::string key = std::to_string(num_heads).append(1, ' ').append(text);  // in each call: without a stream
  const std::scoped_lock lock(mutex);
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  AttentionLayerPointer layer = resolved_layer(parse_layer_spec(text), num_heads);
  if (cache.size() >= kMostLayers) cache.clear();
  return cache.emplace(key, std::move(layer)).first->second;
}

AttentionLayerPointer layer_of(const AttentionSpec& spec, int64_t num_heads) {
  return resolved_layer(LayerSpec{{.num_heads = num_heads, .spec = spec}}, num_heads);
}

}  // namespace fovea
