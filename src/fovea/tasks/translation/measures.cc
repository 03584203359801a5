#include "fovea/tasks/translation/measures.h"

#include <cmath>
#include <span>

#include "fovea/metrics/bleu.h"
#include "fovea/metrics/chrf.h"

namespace fovea::translation {
namespace {

double chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  const metrics::Chrf chrf;
  metrics::ChrfStats stats;
  for (size_t i = 0; i < hypotheses.size(); ++i)
    stats += chrf.segment(hypotheses[i], std::span<const std::string>(&references[i], 1));
  return chrf.score(stats);
}

}  // namespace

const train::MeasureTable<TranslationScore>& measures() {
  using Score = TranslationScore;
  static const train::MeasureTable<Score> kTable = {
      {{"ce-mean-words", true, 4}, [](Score& s) { return s.forced().mean_nll(); }},
      {{"perplexity", true, 4}, [](Score& s) { return std::exp(s.forced().mean_nll()); }},
      {{"accuracy", false, 4}, [](Score& s) { return s.forced().accuracy(); }},
      {{"bleu", false, 2},
       [](Score& s) { return metrics::corpus_bleu(s.written(), s.references, {.tokenize = s.tokenize}).score; }},
      {{"chrf", false, 2}, [](Score& s) { return chrf(s.written(), s.references); }}};
  return kTable;
}

std::vector<std::string> default_measures() { return {"ce-mean-words", "bleu"}; }

}  // namespace fovea::translation
