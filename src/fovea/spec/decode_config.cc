#include "fovea/spec/decode_config.h"

#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/config_problems.h"

namespace fovea {

void validate(const DecodeConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  problems.add_if(config.model.empty(), "--model is missing; expected the folder of a run or of a checkpoint");
  problems.add_if(!config.vocabs.empty() && config.vocabs.size() != 2,
                  cat("--vocabs has ", config.vocabs.size(), config.vocabs.size() == 1 ? " file" : " files",
                      "; expected two, source and target"));
  problems.add_if(config.n_best && config.scores, "--n-best prints the scores already; leave out --scores");
  problems.add_if(!is_device(config.devices),
                  cat("--devices: got '", config.devices, "'; expected cpu or the number of a CUDA device"));
  problems.add_if(config.precision == "int8" && config.devices != "cpu",
                  cat("--precision int8 runs on the CPU, but --devices is ", config.devices,
                      "; use --devices cpu, or --precision bfloat16"));
  add_attention_problems(config, problems);
  problems.throw_if_any();
}

}  // namespace fovea
