#pragma once
#include <cstdint>
#include <tuple>

#include "fovea/spec/run_options.h"

namespace fovea::tagging {

struct LoadedTagger;

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

// The column of part-of-speech tags by which the model finds clauses: `given`, or that of its training if it is -1.
// Throws a UsageError if the model has no clauses and `given` is not -1, or if it is the column of the words.
int64_t clause_tag_column(const LoadedTagger& loaded, int64_t given);

}  // namespace fovea::tagging
