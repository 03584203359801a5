#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_average.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_options.h"

namespace fovea::app {
namespace {

struct AverageConfig : LogOptions {
  std::string model, output;
  int64_t last = 5, until = 0;

  static constexpr auto fields() {
    using C = AverageConfig;
    return std::tuple_cat(
        std::tuple(named("model", &C::model, "folder of a run", "m"),
                   number("last", &C::last, "checkpoints to average, the newest", 1, 1e6),
                   number("until", &C::until, "average checkpoints of at most N updates (0: the newest)", 0, 1e15),
                   named("output", &C::output, "folder of the averaged model", "o")),
        LogOptions::fields());
  }
};

void check(const AverageConfig& config) {
  Problems problems;
  problems.add_if(config.model.empty(), "--model: got none; expected the folder of a run");
  problems.add_if(config.output.empty(), "--output: got none; expected a folder for the averaged model");
  problems.throw_if_any();
}

}  // namespace

int run_average(const std::vector<std::string>& arguments) {
  AverageConfig config;
  Options options("average", "Averages the weights of checkpoints of a run.",
                  "--model DIR --last N [--until UPDATE] --output DIR2");
  options.add(config, "Options");
  options.epilogue("  fovea average --model run --last 5 --output averaged");
  if (!options.parse(arguments)) return 0;
  require_torch();
  const LogOptions& log_options = config;  // --output is a folder
  configure_log(log_options, {});
  check(config);
  nn::average_checkpoints({config.model, config.last, config.until}, config.output);
  log::info(cat("wrote ", config.output));
  return 0;
}

}  // namespace fovea::app
