#include "fovea/spec/score_config.h"

#include "fovea/spec/config_problems.h"

namespace fovea {

void add_parallel_text_problems(const std::vector<std::string>& files, Problems& problems) {
  problems.add_unless_two_sides("train-sets", files);
  const bool both = files.size() == 2 && files[0] == "-" && files[1] == "-";
  problems.add_if(both, "--train-sets: '-', standard input, can be one of the two sides only");
}

void validate(const ScoreConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_model_problems(config, problems);
  add_parallel_text_problems(config.train_sets, problems);
  problems.throw_if_any();
}

}  // namespace fovea
