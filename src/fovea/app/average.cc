#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_options.h"

namespace fovea::app {
namespace {

struct AverageConfig {
  std::string model, output;
  int64_t last = 5;

  static constexpr auto fields() {
    using C = AverageConfig;
    return std::tuple(named("model", &C::model, "folder of a run", "m"),
                      number("last", &C::last, "checkpoints to average, the newest", 1, 1e6),
                      named("output", &C::output, "folder of the averaged model", "o"));
  }
};

}  // namespace

int run_average(const std::vector<std::string>& arguments) {
  AverageConfig config;
  LogOptions log_options;
  Options options("average", "Averages the weights of a run's last checkpoints.", "--model DIR --last N --output DIR2");
  options.add(config, "Options");
  options.add(log_options, "Options");
  if (!options.parse(arguments)) return 0;
  configure_log(log_options, {});
  if (config.model.empty()) throw UsageError("--model: got none; expected the folder of a run");
  if (config.output.empty()) throw UsageError("--output: got none; expected a folder for the averaged model");
  nn::average_checkpoints(config.model, config.last, config.output);
  log::info(cat("wrote ", config.output));
  return 0;
}

}  // namespace fovea::app
