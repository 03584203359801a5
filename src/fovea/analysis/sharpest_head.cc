#include "fovea/analysis/sharpest_head.h"

namespace fovea::analysis {

HeadPlace sharpest_head(std::span<const HeadWeights> layers, const HeadPlace& asked) {
  HeadPlace best = {asked.layer > 0 ? asked.layer : 1, asked.head > 0 ? asked.head : 1};
  double most = 0;
  for (int64_t layer = 1; layer <= std::ssize(layers); ++layer) {
    if (asked.layer > 0 && layer != asked.layer) continue;
    const HeadWeights& weights = layers[static_cast<size_t>(layer - 1)];
    for (int64_t head = 1; head <= weights.heads; ++head) {
      if (asked.head > 0 && head != asked.head) continue;
      const double information = figures_of(weights, head - 1).mean_information();
      if (information > most) most = information, best = {layer, head};
    }
  }
  return best;
}

}  // namespace fovea::analysis
