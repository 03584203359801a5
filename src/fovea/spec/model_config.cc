#include "fovea/spec/model_config.h"

#include "fovea/base/strings.h"
#include "fovea/spec/attention_problems.h"

namespace fovea {
namespace {

void add_vocabulary_problems(const ModelConfig& config, Problems& problems) {
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  const bool one = depth_of(config, Sublayer::kCross) == 0;
  problems.add_if(sizes.empty() || sizes.size() > (one ? 1 : 2),
                  cat("--dim-vocabs has ", sizes.size(), " numbers; expected ", one ? "one" : "one or two"));
  for (const int64_t size : sizes) problems.add_if(size < 0, cat("--dim-vocabs ", size, " is negative"));
  problems.add_if(
      sizes.size() == 2 && sizes[0] != sizes[1] && (config.tied_embeddings_src || config.tied_embeddings_all),
      cat("--tied-embeddings-", config.tied_embeddings_all ? "all" : "src", " needs one vocabulary for both ",
          "sides; --dim-vocabs are ", sizes.empty() ? 0 : sizes.front(), " and ", sizes.empty() ? 0 : sizes.back()));
}

// A decoder without self-attention has no mechanism there.
void add_recurrence_problems(const ModelConfig& config, Problems& problems) {
  problems.add_if(has_recurrent_decoder(config) && !config.attention_decoder.empty(),
                  cat("--attention-decoder: got '", config.attention_decoder,
                      "'; a decoder with --transformer-decoder-autoreg ssru has no self-attention, so leave it out"));
}

}  // namespace

void add_problems(const ModelConfig& config, Media media, Problems& problems) {
  add_stack_problems(config, media, problems);
  add_vocabulary_problems(config, problems);
  add_recurrence_problems(config, problems);
  add_attention_problems(config, problems);
}

bool has_recurrent_decoder(const ModelConfig& config) { return config.transformer_decoder_autoreg == "ssru"; }

}  // namespace fovea
