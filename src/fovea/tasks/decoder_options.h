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

}  // namespace fovea::tasks
