#include "fovea/spec/attention_parameters.h"

#include <algorithm>

namespace fovea {

// A keyword in an argument's place: the argument is learned.
bool learns_argument(const Transform& transform) {
  return std::visit(
      []<class T>(const T& t) {
        const auto is_chosen = [&](const auto& field) { return field.chosen != nullptr && t.*field.chosen; };
        return std::apply([&](const auto&... field) { return (is_chosen(field) || ...); }, T::fields());
      },
      transform);
}

AttentionParameters parameters_of(const LayerSpec& spec) {
  const NormParts parts = parts_of(spec.front().spec.norm);  // of all groups: see resolve()
  const auto learns = [](const HeadGroup& group) { return learns_argument(group.spec.transform); };
  AttentionParameters needs{
      .gain = parts.gain, .gate = parts.gate, .bias = parts.bias, .alpha = std::ranges::any_of(spec, learns)};
  for (const HeadGroup& group : spec) {
    const ClauseAttention* clauses = group.spec.clauses();
    if (clauses == nullptr || !clauses->is_mixture() || clauses->weights == ClauseAttention::Weights::kConstant)
      continue;
    needs.mix_levels = std::max(needs.mix_levels, static_cast<int64_t>(clauses->levels.size()));
    needs.mix_by_token |= clauses->weights == ClauseAttention::Weights::kByToken;
  }
  return needs;
}

}  // namespace fovea
