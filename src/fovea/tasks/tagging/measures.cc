#include "fovea/tasks/tagging/measures.h"

namespace fovea::tagging {

const train::MeasureTable<const metrics::ConllScore>& measures() {
  using Score = metrics::ConllScore;
  static const train::MeasureTable<const Score> kTable = {
      {{"f1", false, 4}, [](const Score& s) { return s.total().f1(); }},
      {{"precision", false, 4}, [](const Score& s) { return s.total().precision(); }},
      {{"recall", false, 4}, [](const Score& s) { return s.total().recall(); }},
      {{"accuracy", false, 4}, [](const Score& s) { return s.accuracy(); }}};
  return kTable;
}

std::vector<std::string> usual_measures(const LabelSet& labels) {
  if (labels.has_chunks()) return {"f1", "accuracy"};
  return {"accuracy"};
}

}  // namespace fovea::tagging
