#include "fovea/metrics/evaluate.h"

#include <iostream>
#include <string>
#include <vector>

#include "fovea/app/options.h"

namespace fovea::app {

int run_evaluate(const std::vector<std::string>& arguments) {
  metrics::EvaluateOptions config;
  Options options(
      "evaluate",
      "BLEU and chrF of translations, equal to sacreBLEU's, with its signature; COCO-BLEU and CIDEr of captions, "
      "equal to COCO's.",
      "--reference REF < translations");
  options.add(config, "Options");
  options.epilogue(
      "  fovea evaluate --reference test.de < test.out\n"
      "  fovea evaluate --reference test.de --metrics bleu chrf --json < test.out\n"
      "  fovea evaluate --reference test.de --baseline full.out < topk.out\n"
      "  fovea evaluate --reference test.cap.1 test.cap.2 test.cap.3 --metrics coco-bleu cider < test.out");
  if (!options.parse(arguments)) return 0;
  metrics::evaluate(config, std::cout);
  return 0;
}

}  // namespace fovea::app
