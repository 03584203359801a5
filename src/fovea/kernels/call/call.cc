#include "fovea/kernels/call/call.h"

namespace fovea::kernels {
namespace {

using Element = TensorView::Element;

DType dtype_of(const TensorView& x) {
  if (x.element == Element::kFloat64) return DType::kFloat64;
  return x.element == Element::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

OffsetRanges ranges_of(const CoreCall& call) {
  check_terms(call.x.q, call.terms);
  const auto range = [](const std::optional<TensorView>& x, int64_t first, size_t dim) {
    return x ? OffsetRange{first, x->sizes[dim]} : OffsetRange{};
  };
  const size_t last = call.x.q.dim() - 1;
  return {.by_head = range(call.terms.by_head, call.offsets.by_head.first, 1),
          .by_query = range(call.terms.by_query, call.offsets.by_query.first, last),
          .product = range(call.terms.rows, call.offsets.product.first, 0),
          .sums = call.offsets.sums.count > 0 ? call.offsets.sums : OffsetRange{}};
}

void check_all_learned(const CoreCall& call, std::span<const AttentionLayer::Group> groups) {
  int64_t head = 0;
  for (const AttentionLayer::Group& group : groups) {
    if (group.reads_alpha) {
      check_learned_shape(call.alpha, group.spec, call.x.q.heads());
      TensorView own = *call.alpha;
      const int64_t size[] = {group.num_heads};
      own.sizes = size;
      if (own.data != nullptr) own.data = static_cast<const float*>(own.data) + head * own.strides[0];
      check_learned(own, group.spec.transform, head);
    }
    head += group.num_heads;
  }
}

}  // namespace

CallSizes sizes_of(const TensorView& q, const TensorView& k) {
  if (q.dim() == 3) return {.packed = true, .queries = q.sizes[0], .keys = k.sizes[0]};
  return {.batch = q.sizes[0], .queries = q.sizes[2], .keys = k.sizes[2]};
}

int64_t tokens_of(const TensorView& x) { return x.dim() == 3 ? x.sizes[0] : x.sizes[0] * x.sizes[2]; }

AttentionProblem problem_of(const CoreCall& call, std::span<const AttentionLayer::Group> groups, Phase phase) {
  const TensorView& q = call.x.q;
  check_inputs(call.x, call.keys);
  check_rate(call.dropout, "attention: dropout");
  AttentionProblem problem;
  if (groups.size() == 1) problem.spec = groups[0].spec;
  problem.kind = call.kind;
  problem.dtype = dtype_of(q);
  problem.num_heads = q.heads(), problem.head_dim = q.width();
  problem.keys = call.keys;
  // Kernels leave something for backward, and they take neither other devices nor float16.
  problem.needs_backward = phase == Phase::kTraining && q.on_cpu && q.element != Element::kFloat16;
  problem.dropout = static_cast<float>(call.dropout);
  problem.keys_listed = call.vectors.k_tokens.has_value();
  problem.offsets = ranges_of(call);
  problem.given = checked_lists(call.x, call.pairs);
  check_all_learned(call, groups);
  problem.sequences = read_sequences(sizes_of(q, call.x.k), call.vectors);
  return problem;
}

}  // namespace fovea::kernels
