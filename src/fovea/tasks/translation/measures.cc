#include "fovea/tasks/translation/measures.h"

#include <cmath>
#include <span>

#include "fovea/metrics/bleu.h"
#include "fovea/metrics/chrf.h"
#include "fovea/metrics/ter.h"

namespace fovea::translation {
namespace {

template <class Metric>
double corpus_score(TranslationScore& score) {
  const Metric metric;
  decltype(metric.segment({}, {})) sum;
  const std::vector<std::string>& hypotheses = score.written();
  for (size_t i = 0; i < hypotheses.size(); ++i)
    sum += metric.segment(hypotheses[i], std::span<const std::string>(&score.references[i], 1));
  return metric.score(sum);
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
      {{"chrf", false, 2}, corpus_score<metrics::Chrf>},
      {{"ter", true, 2}, corpus_score<metrics::Ter>}};
  return kTable;
}

std::vector<std::string> default_measures() { return {"ce-mean-words", "bleu"}; }

}  // namespace fovea::translation
