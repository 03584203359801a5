#include <string>
#include <vector>

#include "fovea/app/average_checkpoints.h"
#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/logging.h"

namespace fovea::app {
namespace {

void check(const AverageConfig& config) {
  Problems problems;
  problems.add_if(config.model.empty(), "--model: got none; expected the folder of a run");
  problems.add_if(config.output.empty(), "--output: got none; expected a folder for the averaged model");
  problems.add_if(config.each == 0 && !config.valid_sets.empty(), "--valid-sets is for --each; give both or none");
  problems.add_if(config.each == 0 && !config.valid_metrics.empty(),
                  "--valid-metrics is for --each; give both or none");
  add_machine_problems(config, problems);
  problems.throw_if_any();
}

}  // namespace

int run_average(const std::vector<std::string>& arguments) {
  AverageConfig config;
  Options options("average", "Averages the weights of a run's last checkpoints, or of the best window of checkpoints.",
                  "--model DIR --last N [--each K [--valid-sets A [B]]] --output DIR2");
  options.add(config, "Options");
  options.epilogue(
      "  fovea average --model run --last 5 --output averaged\n"
      "  fovea average --model run --last 10 --each 5 --valid-metrics bleu --output averaged");
  if (!options.parse(arguments)) return 0;
  require_torch();
  const LogOptions& log_options = config;  // --output is a folder
  configure_log(log_options, {config.valid_sets});
  check(config);
  average_checkpoints(config);
  log::info(cat("wrote ", config.output));
  return 0;
}

}  // namespace fovea::app
