#include "fovea/metrics/evaluate.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/logging.h"
#include "fovea/tasks/bert/bertscore.h"

namespace fovea::app {

namespace {

// The other metrics read none of them.
void require_no_bertscore_options(const bert::BertScoreOptions& options) {
  for (const std::string_view name : changed_fields(options))
    if (name.starts_with(bert::kBertScore))
      throw UsageError(cat("--", name, ": is for --metrics ", bert::kBertScore, "; give that or leave it out"));
}

}  // namespace

int run_evaluate(const std::vector<std::string>& arguments) {
  metrics::EvaluateOptions config;
  Options options(
      "evaluate",
      "BLEU, chrF and TER of translations, equal to sacreBLEU's, with its signature; BERTScore, equal to bert-score's; "
      "COCO-BLEU and CIDEr of captions, equal to COCO's.",
      "--reference REF < translations");
  options.add(config, "Options");
  bert::BertScoreOptions bertscore;
  LogOptions log_options;
  options.add(bertscore, "BERTScore (--metrics bertscore)");
  options.add(log_options, "Options");
  options.epilogue(
      "  fovea evaluate --reference test.de < test.out\n"
      "  fovea evaluate --reference test.de --metrics bleu chrf --json < test.out\n"
      "  fovea evaluate --reference test.de --baseline full.out < topk.out\n"
      "  fovea evaluate --reference test.de --bands 4 --bands-by test.en < test.out\n"
      "  fovea evaluate --reference test.de --metrics bertscore --bertscore-model bert-base-multilingual-cased < "
      "test.out\n"
      "  fovea evaluate --reference test.cap.1 test.cap.2 test.cap.3 --metrics coco-bleu cider < test.out");
  if (!options.parse(arguments)) return 0;
  const bool wants_bertscore = std::ranges::find(config.metrics, bert::kBertScore) != config.metrics.end();
  if (wants_bertscore) require_torch();
  configure_log(log_options,
                {config.reference, {config.input}, config.baseline, {config.bands_by}, {bertscore.baseline}});
  if (!wants_bertscore) require_no_bertscore_options(bertscore);
  if (wants_bertscore) {
    bert::evaluate_bertscore(config, bertscore, std::cout);
  } else {
    metrics::evaluate(config, std::cout);
  }
  return 0;
}

}  // namespace fovea::app
