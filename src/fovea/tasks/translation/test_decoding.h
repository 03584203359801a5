#pragma once
#include <c10/core/InferenceMode.h>
#include <torch/torch.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/models/batches.h"
#include "fovea/models/beam_engine.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/model.h"
#include "fovea/spec/testing/classic_layers.h"
#include "fovea/tasks/translation/engine.h"

// A small model, sources and mechanisms for tests of decoding.
namespace fovea::translation {

inline constexpr int64_t kVocabulary = 41;

inline nn::Model decoding_model(const std::string& attention, const std::string& positions = "sinusoidal",
                                const std::string& cross = "", const std::string& autoreg = "self-attention") {
  ModelConfig config;
  set_classic_layers(config, "pre");
  config.dim_emb = 32;
  config.enc_depth = config.dec_depth = 2;
  config.transformer_heads = 4;
  config.transformer_dim_ffn = 48;
  config.transformer_positions = positions;
  config.max_positions = 30;
  config.dim_vocabs = {kVocabulary, kVocabulary};
  config.attention = attention;
  config.attention_cross = cross;
  config.transformer_decoder_autoreg = autoreg;
  nn::Model model(config, 11);
  const torch::NoGradGuard guard;
  uint64_t seed = 3;
  for (auto& parameter : model->parameters()) {  // steep enough that translations differ, and end
    Rng rng(++seed);
    for (int64_t i = 0; i < parameter.numel(); ++i) {
      parameter.data_ptr<float>()[i] += static_cast<float>(0.15 * rng.normal());
    }
  }
  model->output_bias().data_ptr<float>()[0] += 1.5F;
  return model;
}

inline std::vector<models::Sentence> random_sentences(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<models::Sentence> sentences(count);
  for (models::Sentence& sentence : sentences) {
    const uint64_t length = 1 + rng.below(14);
    for (uint64_t i = 0; i < length; ++i) sentence.push_back(static_cast<int64_t>(1 + rng.below(kVocabulary - 1)));
    sentence.push_back(0);
  }
  return sentences;
}

struct Decoding {
  search::BeamOptions beam = {};
  double max_length_factor = 2;
};

inline models::BeamRequest decoding_request(const models::SearchModel& model, const models::Sentence& source,
                                            models::Ticket ticket, const Decoding& options) {
  const int64_t longest = longest_translation(model.model->config(), options.max_length_factor, std::ssize(source));
  return {ticket, nn::index_tensor(std::span(source)), {options.beam, longest}};
}

// The hypotheses of each source, of which at most `together` run at a time.
inline std::vector<std::vector<search::Hypothesis>> decode(models::SearchModel& model,
                                                           std::span<const models::Sentence> sources,
                                                           const Decoding& options, int64_t together) {
  const c10::InferenceMode guard;
  models::BeamEngine engine(
      model, {.max_rows = together * options.beam.beam_size, .max_tokens = models::kNoLimits.max_tokens}, 0);
  for (size_t s = 0; s < sources.size(); ++s)
    engine.add(decoding_request(model, sources[s], static_cast<models::Ticket>(s), options));
  std::vector<std::vector<search::Hypothesis>> found(sources.size());
  while (engine.step()) {
    for (models::BeamEngine::Done& done : engine.take()) found[static_cast<size_t>(done.ticket)] = std::move(done.best);
  }
  return found;
}

// Mechanisms of self-attention and of cross-attention; an empty one is that of self-attention too.
inline std::vector<std::pair<std::string, std::string>> decoding_mechanisms() {
  // Patterns that compare positions are for self-attention.
  std::vector<std::pair<std::string, std::string>> specs = {
      {"topk(2,keep=window(2))", "topk(1)"}, {"window(4)|global(1)+topk(2)", "random(3)"}, {"oow(4)", "relu"}};
  for (const char* everywhere :
       {"full", "topk(2)", "relu+rmsnorm", "sparsemax", "entmax(1.5)", "entmax(1.3)", "entmax(learned)",
        "gelu+layernorm", "relu+gated-rmsnorm", "random(4)+topk(2)", "2*random(3);2*topk(2)"})
    specs.emplace_back(everywhere, "");
  for (const char* self :
       {"window(3)", "dilated(3,2)", "block(3)", "global(2)", "local(3)", "strided(2)", "fixed(3,1)"})
    specs.emplace_back(self, "full");
  return specs;
}

}  // namespace fovea::translation
