#include <string>
#include <vector>

#include "fovea/app/logging.h"
#include "fovea/app/options.h"
#include "fovea/decode/run.h"

namespace fovea::app {

int run_translate(const std::vector<std::string>& arguments) {
  DecodeConfig config;
  Options options("translate", "Translates lines of text: a line out for each line in, in order.",
                  "--model DIR < text > translation");
  options.add(config, "Options");
  options.epilogue(
      "  fovea translate --model run --beam-size 5 --normalize 1 < test.en > test.out\n"
      "  fovea translate --model run --attention 'topk(8)' --n-best --input test.en.gz --output test.nbest.gz");
  if (!options.parse(arguments)) return 0;
  configure_log(config, {config.vocabs, {config.input}});
  decode::run_translate(config);
  return 0;
}

}  // namespace fovea::app
