#include <string>
#include <vector>

#include "fovea/app/logging.h"
#include "fovea/app/options.h"
#include "fovea/decode/run.h"

namespace fovea::app {

int run_score(const std::vector<std::string>& arguments) {
  ScoreConfig config;
  Options options("score", "Natural logarithms of p(target | source), one a line, or of the whole text.",
                  "--model DIR --train-sets A B [--summary]");
  options.add(config, "Options");
  if (!options.parse(arguments)) return 0;
  configure_log(config, {config.train_sets, config.vocabs});
  decode::run_score(config);
  return 0;
}

}  // namespace fovea::app
