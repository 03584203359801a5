#include "fovea/metrics/coco_bleu.h"

#include <cmath>
#include <vector>

#include "fovea/base/strings.h"

namespace fovea::metrics {
namespace {

// COCO adds them so that nothing is divided by zero. They show in the score of a text without matches.
constexpr double kTiny = 1e-15, kSmall = 1e-9;

}  // namespace

std::string CocoBleuScore::verbose() const {
  std::vector<std::string> parts;
  for (const double score : bleu) parts.push_back(fixed(score, 1));
  const double ratio =
      reference_length > 0 ? static_cast<double>(hypothesis_length) / static_cast<double>(reference_length) : 0;
  return cat(join(parts, "/"), " (ratio = ", fixed(ratio, 3), " hyp_len = ", hypothesis_length,
             " ref_len = ", reference_length, ")");
}

CocoBleuScore coco_bleu(const BleuStats& stats) {
  CocoBleuScore score;
  score.hypothesis_length = stats.hypothesis_length;
  score.reference_length = stats.reference_length;
  const double ratio =
      (static_cast<double>(stats.hypothesis_length) + kTiny) / (static_cast<double>(stats.reference_length) + kSmall);
  const double penalty = ratio < 1 ? std::exp(1 - 1 / ratio) : 1;
  double product = 1;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    product *= (static_cast<double>(stats.correct[n]) + kTiny) / (static_cast<double>(stats.total[n]) + kSmall);
    score.bleu[n] = 100 * penalty * std::pow(product, 1 / static_cast<double>(n + 1));
  }
  return score;
}

}  // namespace fovea::metrics
