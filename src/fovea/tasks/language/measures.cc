#include "fovea/tasks/language/measures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace fovea::language {
namespace {

double ratio(double sum, int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

struct KnownMeasure : train::Measure {
  double (*value)(const TextScore&);
};
constexpr std::array kMeasures = {
    KnownMeasure{{"bits-per-byte", true, 4},
                 [](const TextScore& s) { return ratio(s.nll, s.bytes) / std::numbers::ln2; }},
    KnownMeasure{{"bits-per-unit", true, 4},
                 [](const TextScore& s) { return ratio(s.nll, s.units) / std::numbers::ln2; }},
    KnownMeasure{{"perplexity", true, 4}, [](const TextScore& s) { return std::exp(ratio(s.nll, s.units)); }},
    KnownMeasure{{"perplexity-per-word", true, 4}, [](const TextScore& s) { return std::exp(ratio(s.nll, s.words)); }},
    KnownMeasure{{"accuracy", false, 4},
                 [](const TextScore& s) { return ratio(static_cast<double>(s.correct), s.units); }},
};

}  // namespace

std::span<const train::Measure> measures() {
  static const std::vector<train::Measure> kPlain(kMeasures.begin(), kMeasures.end());
  return kPlain;
}

double value_of(const TextScore& score, std::string_view measure) {
  return std::ranges::find_if(kMeasures, [&](const KnownMeasure& known) { return known.name == measure; })
      ->value(score);
}

}  // namespace fovea::language
