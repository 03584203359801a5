#include "fovea/stable/call.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::stable {
namespace {

using kernels::GroupedCall;
using kernels::SavedPerRow;

template <class T>
std::vector<T> filled(std::vector<T> given, std::vector<T> rest, std::string_view name) {
  if (given.size() > rest.size()) {
    throw Error(cat("attention: the list ", name, " has ", given.size(), " entries; expected ", rest.size()));
  }
  given.insert(given.end(), rest.begin() + std::ssize(given), rest.end());
  return given;
}

// The layer of a call whose q has heads.
AttentionLayerPointer layer_of(const CallArguments& call, const kernels::CoreCall& core) {
  kernels::check_layout(core.x);
  return resolved_layer(call.spec, core.x.q.heads());
}

}  // namespace

kernels::SequenceVectors vectors_of(const OptionalTensors& layout) {
  const auto view = [&](Layout place) { return place < layout.size() ? view_of(layout[place]) : std::nullopt; };
  return {view(kQueryOffsets), view(kKeyOffsets),   view(kKeyBegins),
          view(kKeyTokens),    view(kQueryLengths), view(kKeyLengths)};
}

kernels::CallSizes sizes_of(const std::vector<int64_t>& sizes) {
  check_count(sizes, 4, "sizes");
  return {.packed = sizes[0] != 0, .batch = sizes[1], .queries = sizes[2], .keys = sizes[3]};
}

kernels::RandomStream stream_of(const std::vector<int64_t>& stream) {
  check_count(stream, 4, "stream");
  return {static_cast<uint64_t>(stream[0]), static_cast<uint64_t>(stream[3]), stream[1], stream[2]};
}

CallArguments::CallArguments(Arguments& in)
    : q(in.tensor()),
      k(in.tensor()),
      v(in.tensor()),
      alpha(in.optional_tensor()),
      terms(filled(in.optional_tensors(), OptionalTensors(kTerms), "terms")),
      offsets(filled(in.optional_integers(), std::vector<int64_t>(kOffsets), "offsets")),
      layout(filled(in.optional_tensors(), OptionalTensors(kLayouts), "layout")),
      spec(in.text()),
      kind(in.text()),
      scale(in.number()),
      dropout(in.number()),
      stream(filled(in.optional_integers(), {0, 0, 0, 1, 0}, "stream")),
      dropout_seed(in.integer()) {
  stream[kHeadsPerKey] = std::max<int64_t>(stream[kHeadsPerKey], 1);
}

kernels::CoreCall CallArguments::core() const {
  kernels::CoreCall call{.x = {view_of(q), view_of(k), view_of(v)},
                         .alpha = view_of(alpha),
                         .terms = {view_of(terms[kByHead]), view_of(terms[kByQuery]), view_of(terms[kTermQueries]),
                                   view_of(terms[kTermRows])},
                         .vectors = vectors_of(layout),
                         .kind = parse_kind(kind),
                         .keys = {stream[kHeadsPerKey], stream[kFirstHead] % stream[kHeadsPerKey]},
                         .dropout = dropout};
  call.offsets = {.by_head = {offsets[kByHeadFirst], 0},
                  .by_query = {offsets[kByQueryFirst], 0},
                  .product = {offsets[kRowsFirst], 0},
                  .sums = {offsets[kValuesFirst], offsets[kValueOffsets]}};
  if (layout[kLists]) {
    call.pairs = {view_of(layout[kLists]), stream[kBlock], layout[kLists]->dim() == q.dim()};
  }
  return call;
}

kernels::RandomStream CallArguments::random() const {
  const auto* drawn = numbers_of<int64_t>(layout[kDrawnSeed]);
  const int64_t seed = drawn != nullptr ? *drawn : dropout_seed;
  return {static_cast<uint64_t>(stream[kSeed]), static_cast<uint64_t>(seed), stream[kLayer], stream[kFirstHead]};
}

PreparedCall::PreparedCall(const CallArguments& arguments, kernels::Phase phase) {
  const kernels::CoreCall core = arguments.core();
  const kernels::TensorView& q = core.x.q;
  layer_ = layer_of(arguments, core);
  problem_ = kernels::problem_of(core, layer_->groups, phase);
  tokens_ = kernels::tokens_of(q);
  key_tokens_ = kernels::read_key_tokens(kernels::sizes_of(q, core.x.k), core.vectors);
  groups_ = kernels::grouped_call(layer_->groups, problem_, tokens_, /*terms_for_spans=*/false);
  if (!q.on_cpu || q.element == kernels::TensorView::Element::kFloat16) return;
  kernels_.emplace(groups_);
  if (!kernels_->take()) kernels_.reset();
}

SavedPerRow PreparedCall::saved() const { return saved_per_token(groups_); }

SavedPerRow saved_per_token(const GroupedCall& groups) {
  SavedPerRow sum;
  for (const kernels::GroupProblem& group : groups.groups) {
    sum.floats += group.problem.num_heads * group.saved.floats;
    sum.ints += group.problem.num_heads * group.saved.ints;
  }
  return sum;
}

}  // namespace fovea::stable
