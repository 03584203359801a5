#include "fovea/spec/attention_parameters.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace fovea {

bool scales_by_input(const Transform& transform) {
  return std::holds_alternative<Entmax>(transform) || std::holds_alternative<Sparsemax>(transform);
}

bool lacks_bias(const AttentionSpec& spec) {
  const auto* sigmoid = std::get_if<Sigmoid>(&spec.transform);
  return sigmoid != nullptr && sigmoid->by_length;
}

bool lacks_bias(const LayerSpec& spec) {
  return std::any_of(spec.begin(), spec.end(), [](const HeadGroup& group) { return lacks_bias(group.spec); });
}

LayerSpec with_bias(LayerSpec spec, int64_t length) {
  for (HeadGroup& group : spec) {
    if (!lacks_bias(group.spec)) continue;
    const double bias = length > 1 ? -std::log(static_cast<double>(length)) : 0;
    group.spec.transform = Sigmoid{.bias = bias, .by_length = false};
  }
  return spec;
}

// A keyword in an argument's place: the argument is learned.
bool learns_argument(const Transform& transform) {
  return std::visit(
      []<class T>(const T& t) {
        const auto is_chosen = [&](const auto& field) {
          return field.chosen != nullptr && !field.keyword.empty() && t.*field.chosen;
        };
        return std::apply([&](const auto&... field) { return (is_chosen(field) || ...); }, T::fields());
      },
      transform);
}

bool learns_sink(const Transform& transform) {
  return std::holds_alternative<Sink>(transform) && learns_argument(transform);
}

AttentionParameters parameters_of(const LayerSpec& spec) {
  const NormParts parts = parts_of(spec.front().spec.norm);  // of all groups: see resolve()
  AttentionParameters needs{.gain = parts.gain, .gate = parts.gate, .bias = parts.bias};
  for (const HeadGroup& group : spec) {
    if (learns_argument(group.spec.transform)) (learns_sink(group.spec.transform) ? needs.sinks : needs.alpha) = true;
    if (group.spec.scale) (scales_by_input(group.spec.transform) ? needs.scale_by_input : needs.scale_by_head) = true;
    const ClauseAttention* clauses = group.spec.clauses();
    if (clauses == nullptr || !clauses->is_mixture() || clauses->weights == ClauseAttention::Weights::kConstant)
      continue;
    needs.mix_levels = std::max(needs.mix_levels, static_cast<int64_t>(clauses->levels.size()));
    needs.mix_by_token |= clauses->weights == ClauseAttention::Weights::kByToken;
  }
  return needs;
}

}  // namespace fovea
