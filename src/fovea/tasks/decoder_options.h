#pragma once
#include <string_view>
#include <tuple>

#include "fovea/spec/run_options.h"

namespace fovea::tasks {

// The fields that the commands on a decoder-only model share. --precision is of matrix products and activations.
template <class C>
constexpr auto decoder_fields(std::string_view precisions) {
  const auto overrides = std::tuple(
      field("attention", &C::attention, "use this mechanism instead of the trained one, in every layer"),
      field("attention-decoder", &C::attention_decoder, "use this mechanism in the decoder's self-attention"));
  return TrainedModelOptions::fields(overrides, precisions, "type of matrix products and activations");
}

template <class C>
constexpr auto cache_precision_field() {
  return choice("cache-precision", &C::cache_precision,
                "type of the keys and values that a language model's layers with full attention keep: the model's own, "
                "or a narrower one, which takes less memory and is read faster",
                "model|bfloat16|int8");
}

}  // namespace fovea::tasks
