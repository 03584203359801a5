#include "fovea/spec/stack_config.h"

#include <algorithm>

#include "fovea/base/strings.h"

namespace fovea {
namespace {

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
  const bool is_divided = config.transformer_heads > 0 && config.dim_emb % config.transformer_heads == 0;
  const int64_t head = is_divided ? config.dim_emb / config.transformer_heads : 0;
  problems.add_if(find_scheme<Rotary>(schemes).has_value() && head % 2 != 0,
                  cat("--transformer-positions rotary turns pairs of numbers, and each head has ", head,
                      " (--dim-emb / --transformer-heads); choose an even number"));
}

}  // namespace

void add_stack_problems(const StackConfig& config, Media media, Problems& problems) {
  problems.add_if(
      config.transformer_heads > 0 && config.dim_emb % config.transformer_heads != 0,
      cat("--dim-emb ", config.dim_emb, " is not a multiple of --transformer-heads ", config.transformer_heads));
  problems.add_if(config.transformer_heads_kv > 0 && config.transformer_heads % config.transformer_heads_kv != 0,
                  cat("--transformer-heads ", config.transformer_heads, " is not a multiple of --transformer-heads-kv ",
                      config.transformer_heads_kv));
  add_position_problems(config, media, problems);
  const double dropout = config.transformer_dropout_embedding;
  problems.add_if(dropout < 0 && dropout != -1,
                  cat("--transformer-dropout-embedding: got '", shortest(dropout),
                      "'; expected a rate from 0 to 0.99, or -1 for that of --transformer-dropout"));
}

double embedding_dropout(const StackConfig& config) {
  return config.transformer_dropout_embedding < 0 ? config.transformer_dropout : config.transformer_dropout_embedding;
}

bool has_gated_feed_forward(const StackConfig& config) { return config.transformer_ffn_activation.ends_with("glu"); }

bool has_learned_positions(const StackConfig& config) {
  return find_scheme<Learned>(parse_positions(config.transformer_positions)).has_value();
}

int64_t longest_text(const StackConfig& config, int64_t limit) {
  return has_learned_positions(config) ? std::min(limit, config.max_positions - 1) : limit;
}

}  // namespace fovea
