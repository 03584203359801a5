#include "fovea/spec/score_config.h"

#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/config_problems.h"

namespace fovea {

void validate(const ScoreConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  problems.add_if(config.model.empty(), "--model is missing; expected the folder of a run or of a checkpoint");
  problems.add_if(config.train_sets.size() != 2,
                  cat("--train-sets has ", config.train_sets.size(), " files; expected two, source and target"));
  const bool both = config.train_sets.size() == 2 && config.train_sets[0] == "-" && config.train_sets[1] == "-";
  problems.add_if(both, "--train-sets: '-', standard input, can be one of the two sides only");
  problems.add_if(!config.vocabs.empty() && config.vocabs.size() != 2,
                  cat("--vocabs has ", config.vocabs.size(), " files; expected two, source and target"));
  problems.add_if(!is_device(config.devices),
                  cat("--devices: got '", config.devices, "'; expected cpu or the number of a CUDA device"));
  add_attention_problems(config, problems);
  problems.throw_if_any();
}

}  // namespace fovea
