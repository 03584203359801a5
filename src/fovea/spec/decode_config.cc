#include "fovea/spec/decode_config.h"

#include "fovea/spec/config_problems.h"

namespace fovea {

void validate(const DecodeConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_model_problems(config, problems);
  problems.add_if(config.n_best && config.scores, "--n-best prints the scores already; leave out --scores");
  problems.add_if(config.documents && (config.n_best || config.scores || config.alignment),
                  "--documents prints a translation per line; leave out --n-best, --scores and --alignment");
  problems.add_if(config.documents && !config.terms.empty(), "--terms are for single sentences; leave out --documents");
  problems.add_if(config.documents && !(config.source_lang.empty() && config.target_lang.empty()),
                  "--source-lang and --target-lang are for single sentences; leave out --documents");
  problems.add_if(!config.documents && config.document_length != DecodeConfig().document_length,
                  "--document-length is for --documents, which is missing");
  const bool chooses = config.alignment_layer + config.alignment_head > 0 || config.alignment_shifted;
  problems.add_if(chooses && !config.alignment,
                  "--alignment-layer, --alignment-head and --alignment-shifted need --alignment");
  problems.throw_if_any();
}

}  // namespace fovea
