#include "fovea/tasks/captions/measures.h"

#include <cmath>
#include <numeric>

#include "fovea/metrics/cider.h"
#include "fovea/metrics/coco_bleu.h"

namespace fovea::captions {
namespace {

double coco_bleu_of(const std::vector<std::string>& captions, const References& references) {
  const metrics::Bleu counter({.tokenize = "none"});
  metrics::BleuStats stats;
  for (size_t i = 0; i < captions.size(); ++i) stats += counter.segment(captions[i], references[i]);
  return metrics::coco_bleu(stats).bleu.back();
}

double cider_of(const std::vector<std::string>& captions, const References& references) {
  metrics::Cider cider;
  for (size_t i = 0; i < captions.size(); ++i) cider.add(captions[i], references[i]);
  const std::vector<double> scores = cider.scores();
  return std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
}

}  // namespace

const train::MeasureTable<CaptionScore>& measures() {
  using Score = CaptionScore;
  static const train::MeasureTable<Score> kTable = {
      {{"ce-mean-words", true, 4}, [](Score& s) { return s.forced().mean_nll(); }},
      {{"perplexity", true, 4}, [](Score& s) { return std::exp(s.forced().mean_nll()); }},
      {{"accuracy", false, 4}, [](Score& s) { return s.forced().accuracy(); }},
      {{"coco-bleu", false, 2}, [](Score& s) { return coco_bleu_of(s.written(), s.references); }},
      {{"cider", false, 2}, [](Score& s) { return cider_of(s.written(), s.references); }}};
  return kTable;
}

std::vector<std::string> default_measures() { return {"ce-mean-words", "coco-bleu", "cider"}; }

}  // namespace fovea::captions
