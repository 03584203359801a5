#include "fovea/spec/attention_parameters.h"

#include <algorithm>

namespace fovea {

AttentionParameters parameters_of(const LayerSpec& spec) {
  const Norm& norm = spec.front().spec.norm;  // of all groups: see resolve()
  const bool alpha = std::any_of(spec.begin(), spec.end(), [](const HeadGroup& group) {
    const auto* entmax = std::get_if<Entmax>(&group.spec.transform);
    return entmax != nullptr && entmax->learned;
  });
  return {.gain = !std::holds_alternative<NoNorm>(norm),
          .gate = std::holds_alternative<GatedRmsNorm>(norm),
          .bias = std::holds_alternative<LayerNorm>(norm),
          .alpha = alpha};
}

}  // namespace fovea
