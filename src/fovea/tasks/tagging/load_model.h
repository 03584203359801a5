#pragma once
#include <tuple>

#include "fovea/metrics/chunks.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/tagging/labels.h"
#include "fovea/tasks/tagging/model.h"
#include "fovea/tasks/tagging/tag_sentences.h"
#include "fovea/text/encoder_vocab.h"

namespace fovea::tagging {

// The fields that the commands on a tagger share.
template <class C>
constexpr auto model_fields() {
  const auto overrides = std::tuple(
      field("attention", &C::attention, "use this mechanism instead of the trained one, in every layer"),
      field("attention-encoder", &C::attention_encoder, "use this mechanism in the encoder's self-attention"));
  return TrainedModelOptions::fields(overrides, "float32|bfloat16", "type of matrix products and activations");
}

struct LoadedTagger {
  Tagger model;
  TaggingConfig config;
  text::EncoderVocab vocab;
  LabelSet labels;
  metrics::LabelDialect dialect;
  TaggingParts parts(int64_t batch_tokens) const {
    return {model, vocab, labels, dialect, longest_sequence(config), batch_tokens};
  }
};

// Sets the threads, and loads the model to its device in its precision, with its mechanisms as `options` have them.
// Throws an Error for a model of another task.
LoadedTagger load_tagger(const TrainedModelOptions& options);

}  // namespace fovea::tagging
