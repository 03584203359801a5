#pragma once
#include <cstdint>
#include <optional>
#include <tuple>

#include "fovea/metrics/chunks.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/spec/run_options.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/models/tagging/model.h"
#include "fovea/models/tagging/tag_sentences.h"
#include "fovea/text/encoder_vocab.h"

namespace fovea::tagging {

// The fields that the commands on a tagger share.
template <class C>
constexpr auto clause_tag_column_field() {
  return number("clause-tag-column", &C::clause_tag_column,
                "column of part-of-speech tags by which a model with clauses finds them (0: by words alone; -1: as in "
                "training)",
                -1, 1000);
}
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
  std::optional<text::ClauseDictionary> clauses = {};  // none: the mechanisms need no clauses
  // The parts refer to this object.
  TaggingParts parts(int64_t batch_tokens) const {
    return {model,       vocab, labels, dialect, ClauseFinder(clauses ? &*clauses : nullptr), longest_sequence(config),
            batch_tokens};
  }
};

// The column of part-of-speech tags by which the model finds clauses: `given`, or that of its training if it is -1.
// Throws a UsageError if the model has no clauses and `given` is not -1, or if it is the column of the words.
int64_t clause_tag_column(const LoadedTagger& loaded, int64_t given);

// Sets the threads, and loads the model to its device in its precision, with its mechanisms as `options` have them.
// Throws an Error for a model of another task.
LoadedTagger load_tagger(const TrainedModelOptions& options);

// Like load_tagger() above, from a checkpoint's model in place of options.model.
LoadedTagger load_tagger(const nn::Checkpoint& checkpoint, const TrainedModelOptions& options);

}  // namespace fovea::tagging
