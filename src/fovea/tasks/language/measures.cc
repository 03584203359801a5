#include "fovea/tasks/language/measures.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace fovea::language {
namespace {

double per(int64_t count, const TextScore& score) {
  return count > 0 ? score.nll / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

const train::MeasureTable<const TextScore>& measures() {
  static const train::MeasureTable<const TextScore> kTable = {
      {{"bits-per-byte", true, 4}, [](const TextScore& s) { return per(s.bytes, s) / std::numbers::ln2; }},
      {{"bits-per-unit", true, 4}, [](const TextScore& s) { return s.mean_nll() / std::numbers::ln2; }},
      {{"perplexity", true, 4}, [](const TextScore& s) { return std::exp(s.mean_nll()); }},
      {{"perplexity-per-word", true, 4}, [](const TextScore& s) { return std::exp(per(s.words, s)); }},
      {{"accuracy", false, 4}, [](const TextScore& s) { return s.accuracy(); }}};
  return kTable;
}

}  // namespace fovea::language
