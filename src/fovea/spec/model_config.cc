#include "fovea/spec/model_config.h"

#include "fovea/base/strings.h"

namespace fovea {
namespace {

AttentionTexts texts_of(const ModelConfig& config) {
  return attention_texts(config, {{Sublayer::kEncoder, config.attention_encoder, config.enc_depth},
                                  {Sublayer::kDecoder, config.attention_decoder, config.dec_depth},
                                  {Sublayer::kCross, config.attention_cross, config.dec_depth}});
}

}  // namespace

void validate(const ModelConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_stack_problems(config, problems);
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  add_vocabulary_problems(sizes, 2, problems);
  problems.add_if(
      sizes.size() == 2 && sizes[0] != sizes[1] && (config.tied_embeddings_src || config.tied_embeddings_all),
      cat("--tied-embeddings-", config.tied_embeddings_all ? "all" : "src", " needs one vocabulary for both ",
          "sides; --dim-vocabs are ", sizes.empty() ? 0 : sizes.front(), " and ", sizes.empty() ? 0 : sizes.back()));
  add_attention_problems(texts_of(config), problems);
  problems.throw_if_any();
}

ModelConfig with_attention(ModelConfig config, const AttentionOverride& mechanisms) {
  const AttentionTexts texts = with_attention(texts_of(config), mechanisms);
  set_attention(texts, config);
  config.attention_encoder = texts.sorts[0].attention;
  config.attention_decoder = texts.sorts[1].attention;
  config.attention_cross = texts.sorts[2].attention;
  return config;
}

void refuse_idle_options(const ModelConfig& config) { refuse_idle_options(texts_of(config), config); }

void log_fallback(const ModelConfig& config) { log_fallback(texts_of(config)); }

LayerSpec attention_of(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  return attention_of(texts_of(config), sublayer, layer);
}

bool uses_clauses(const ModelConfig& config) { return uses_clauses(texts_of(config)); }

bool routes_whole_segments(const ModelConfig& config) { return routes_whole_segments(texts_of(config)); }

}  // namespace fovea
