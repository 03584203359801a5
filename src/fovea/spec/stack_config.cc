#include "fovea/spec/stack_config.h"

#include <algorithm>

#include "fovea/base/strings.h"
#include "fovea/spec/score_cap.h"

namespace fovea {
namespace {

bool has_divided_heads(const StackConfig& config) {
  return config.transformer_dim_head > 0 ||
         (config.transformer_heads > 0 && config.dim_emb % config.transformer_heads == 0);
}

void add_position_problems(const StackConfig& config, Media media, Problems& problems) {
  PositionSchemes schemes;
  problems.add_thrown_by("transformer-positions", [&] { schemes = parse_positions(config.transformer_positions); });
  problems.add_if(
      find_scheme<Sinusoidal>(schemes).has_value() && config.dim_emb % 2 != 0,
      cat("--dim-emb ", config.dim_emb, " is odd; --transformer-positions sinusoidal needs pairs of sine and ",
          "cosine, so choose an even width or learned positions"));
  problems.add_if(media == Media::kText && find_scheme<ImagePositions>(schemes).has_value(),
                  "--transformer-positions image needs images (--task image); choose another scheme");
  // A width that the heads cannot divide is a problem of its own.
  const bool is_divided = has_divided_heads(config);
  const int64_t head = is_divided ? head_dim_of(config) : 0;
  problems.add_if(
      find_scheme<Rotary>(schemes).has_value() && head % 2 != 0,
      cat("--transformer-positions rotary turns pairs of numbers, and each head has ", head,
          config.transformer_dim_head > 0 ? " (--transformer-dim-head)" : " (--dim-emb / --transformer-heads)",
          "; choose an even number"));
}

}  // namespace

void add_stack_problems(const StackConfig& config, Media media, Problems& problems) {
  problems.add_if(
      config.transformer_heads > 0 && !has_divided_heads(config),
      cat("--dim-emb ", config.dim_emb, " is not a multiple of --transformer-heads ", config.transformer_heads));
  problems.add_if(config.transformer_heads_kv > 0 && config.transformer_heads % config.transformer_heads_kv != 0,
                  cat("--transformer-heads ", config.transformer_heads, " is not a multiple of --transformer-heads-kv ",
                      config.transformer_heads_kv));
  problems.add_if(config.index_heads > 0 && config.transformer_heads % config.index_heads != 0,
                  cat("--transformer-heads ", config.transformer_heads, " is not a multiple of --index-heads ",
                      config.index_heads));
  add_position_problems(config, media, problems);
  const double dropout = config.transformer_dropout_embedding;
  problems.add_if(dropout < 0 && dropout != -1,
                  cat("--transformer-dropout-embedding: got '", shortest(dropout),
                      "'; expected a rate from 0 to 0.99, or -1 for that of --transformer-dropout"));
  constexpr double kLeastCap = std::get<0>(ScoreCap::fields()).min;
  problems.add_if(config.logit_softcap > 0 && config.logit_softcap < kLeastCap,
                  cat("--logit-softcap: got '", shortest(config.logit_softcap),
                      "'; expected 0 for none, or a number from ", shortest(kLeastCap), " on"));
}

int64_t index_heads_of(const IndexerConfig& config, int64_t heads) {
  if (config.index_heads > 0) return config.index_heads;
  int64_t most = 4;
  while (heads % most != 0) --most;
  return most;
}

double embedding_dropout(const StackConfig& config) {
  return config.transformer_dropout_embedding < 0 ? config.transformer_dropout : config.transformer_dropout_embedding;
}

int64_t head_dim_of(const StackConfig& config) {
  return config.transformer_dim_head > 0 ? config.transformer_dim_head : config.dim_emb / config.transformer_heads;
}

bool has_gated_feed_forward(const StackConfig& config) {
  return config.transformer_ffn_activation == "swiglu" || config.transformer_ffn_activation.starts_with("geglu");
}

bool has_learned_positions(const StackConfig& config) {
  return find_scheme<Learned>(parse_positions(config.transformer_positions)).has_value();
}

int64_t longest_text(const StackConfig& config, int64_t limit) {
  return has_learned_positions(config) ? std::min(limit, config.max_positions - 1) : limit;
}

}  // namespace fovea
