#include <array>

#include "fovea/base/error.h"
#include "fovea/kernels/call/checks.h"
#include "fovea/stable/call.h"
#include "fovea/stable/copies.h"

// The conditions of a layer's call as users make it, as an operator that reads no numbers.
namespace fovea::stable {
namespace {

using kernels::TensorView;

// The places of the tensors beside q, k and v, as python/fovea/_stable/_layer.py names them.
enum Place : uint8_t {
  kAlpha,
  kSinks,
  kGain,
  kGate,
  kBias,
  kVectors,  // the first of the layout's six
  kDrawn = kVectors + 6,
  kOffsetBias,
  kOffsetQueries,
  kOffsetRows,
  kOffsetValues,
  kIndices,
  kBlockIndices,
  kPlaces
};

struct Given {
  explicit Given(const OptionalTensors& tensors) {
    for (size_t place = 0; place < kPlaces; ++place) {
      if (const auto& x = tensors.at(place)) views[place] = outline_of(*x);
    }
  }
  kernels::LayerViews layer() const {
    kernels::LayerViews all{.alpha = views[kAlpha],
                            .sinks = views[kSinks],
                            .gain = views[kGain],
                            .gate = views[kGate],
                            .bias = views[kBias]};
    const auto vector = [&](size_t place) { return views[kVectors + place]; };
    all.vectors = {vector(0), vector(1), vector(2), vector(3), vector(4), vector(5)};
    all.drawn_seed = views[kDrawn];
    return all;
  }
  kernels::TermViews terms() const {
    const auto& bias = views[kOffsetBias];
    const bool by_head = bias && bias->dim() < 3;
    return {by_head ? bias : std::nullopt, by_head ? std::nullopt : bias, views[kOffsetQueries], views[kOffsetRows]};
  }
  std::array<std::optional<TensorView>, kPlaces> views;
};

// Clusters keep no distances, so routed heads read no terms by offset.
void check_reads_terms(const AttentionLayer& layer, const Given& given) {
  for (const AttentionLayer::Group& group : layer.groups) {
    if (!group.is_routed()) return;
  }
  for (const auto& [place, name] : {std::pair(kOffsetBias, "offset_bias"), std::pair(kOffsetRows, "offset_rows"),
                                    std::pair(kOffsetValues, "offset_values")}) {
    if (!given.views[place]) continue;
    throw Error(cat("attention: got ", name, ", which '", layer.text,
                    "' does not read, as clusters keep no distances; leave it out"));
  }
}

void kernel_check(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), v = in.tensor();
  const OptionalTensors tensors = in.tensors();
  const std::string spec = in.text(), kind = in.text();
  const std::optional<double> scale = in.optional_number();
  const int64_t block_size = in.integer();
  const bool enable_gqa = in.flag();
  const kernels::Graph graph = in.flag() ? kernels::Graph::kRecorded : kernels::Graph::kNone;
  const kernels::QkvViews x{outline_of(q), outline_of(k), outline_of(v)};
  const Given given(tensors);
  const kernels::LayerViews options = given.layer();
  kernels::check_layout(x);
  kernels::check_inputs(x, enable_gqa ? kernels::key_sharing(x.q, x.k) : kernels::KeySharing(),
                        kernels::ValueWidth::kAny);
  const AttentionKind parsed_kind = parse_kind(kind);
  kernels::check_scale(scale, "attention");
  kernels::check_options(x, options, graph);
  const AttentionLayerPointer layer = resolved_layer(spec, x.q.heads());
  kernels::check_read(*layer, options);
  const kernels::ListViews lists = kernels::one_of({given.views[kIndices], given.views[kBlockIndices], block_size});
  kernels::checked_lists(x, lists);
  for (const AttentionLayer::Group& group : layer->groups) {
    kernels::check_choice(group, lists, options.vectors, parsed_kind);
    if (group.reads_alpha) kernels::check_learned_shape(options.learned(group.spec.transform), group.spec, x.q.heads());
  }
  check_reads_terms(*layer, given);
  kernels::check_layer_terms(x.q, given.terms(), given.views[kOffsetValues], x.v.width());
  kernels::check_norm(layer->norm, options, x.q.heads() * x.v.width());
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def(
      "kernel_check(Tensor q, Tensor k, Tensor v, Tensor?[] tensors, str spec, str kind, float? scale, int block_size, "
      "bool enable_gqa, bool records) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeImplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_check", &kernel_check);
}

}  // namespace fovea::stable
