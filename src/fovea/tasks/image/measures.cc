#include "fovea/tasks/image/measures.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>
#include <vector>

namespace fovea::image {
namespace {

double per_value(double sum, const ImageScore& score) {
  return score.values > 0 ? sum / static_cast<double>(score.values) : std::numeric_limits<double>::quiet_NaN();
}

struct KnownMeasure : train::Measure {
  double (*value)(const ImageScore&);
};
constexpr std::array kMeasures = {
    KnownMeasure{{"bits-per-dim", true, 4},
                 [](const ImageScore& s) { return per_value(s.nll, s) / std::numbers::ln2; }},
    KnownMeasure{{"cross-entropy", true, 4}, [](const ImageScore& s) { return per_value(s.nll, s); }},
    KnownMeasure{{"accuracy", false, 4},
                 [](const ImageScore& s) { return per_value(static_cast<double>(s.correct), s); }},
};

}  // namespace

std::span<const train::Measure> measures() {
  static const std::vector<train::Measure> kPlain(kMeasures.begin(), kMeasures.end());
  return kPlain;
}

double value_of(const ImageScore& score, std::string_view measure) {
  return std::ranges::find_if(kMeasures, [&](const KnownMeasure& known) { return known.name == measure; })
      ->value(score);
}

}  // namespace fovea::image
