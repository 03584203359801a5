#include "fovea/spec/score_config.h"

#include "fovea/spec/config_problems.h"

namespace fovea {

void validate(const ScoreConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_model_problems(config, problems);
  problems.add_unless_two_sides("train-sets", config.train_sets);
  const bool both = config.train_sets.size() == 2 && config.train_sets[0] == "-" && config.train_sets[1] == "-";
  problems.add_if(both, "--train-sets: '-', standard input, can be one of the two sides only");
  problems.throw_if_any();
}

}  // namespace fovea
