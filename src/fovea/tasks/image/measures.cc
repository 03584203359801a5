#include "fovea/tasks/image/measures.h"

#include <numbers>

namespace fovea::image {

const train::MeasureTable<const ImageScore>& measures() {
  static const train::MeasureTable<const ImageScore> kTable = {
      {{"bits-per-dim", true, 4}, [](const ImageScore& s) { return s.mean_nll() / std::numbers::ln2; }},
      {{"cross-entropy", true, 4}, [](const ImageScore& s) { return s.mean_nll(); }},
      {{"accuracy", false, 4}, [](const ImageScore& s) { return s.accuracy(); }}};
  return kTable;
}

}  // namespace fovea::image
