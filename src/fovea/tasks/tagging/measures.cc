#include "fovea/tasks/tagging/measures.h"

#include <algorithm>
#include <array>

namespace fovea::tagging {
namespace {

struct TaggingMeasure : train::Measure {
  double (*value)(const metrics::ConllScore&);
};
constexpr std::array kTaggingMeasures = {
    TaggingMeasure{{"f1", false, 4}, [](const metrics::ConllScore& s) { return s.total().f1(); }},
    TaggingMeasure{{"precision", false, 4}, [](const metrics::ConllScore& s) { return s.total().precision(); }},
    TaggingMeasure{{"recall", false, 4}, [](const metrics::ConllScore& s) { return s.total().recall(); }},
    TaggingMeasure{{"accuracy", false, 4}, [](const metrics::ConllScore& s) { return s.accuracy(); }},
};
constexpr auto kKnown = [] {
  std::array<train::Measure, kTaggingMeasures.size()> known{};
  std::ranges::copy(kTaggingMeasures, known.begin());
  return known;
}();

}  // namespace

std::span<const train::Measure> measures() { return kKnown; }

std::vector<std::string> usual_measures(const LabelSet& labels) {
  if (labels.has_chunks()) return {"f1", "accuracy"};
  return {"accuracy"};
}

double value_of(const metrics::ConllScore& score, std::string_view measure) {
  const auto* const found = std::ranges::find(kTaggingMeasures, measure, &TaggingMeasure::name);
  return found->value(score);
}

}  // namespace fovea::tagging
