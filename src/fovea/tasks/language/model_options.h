#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "fovea/tasks/decoder_options.h"

namespace fovea::language {

// The options that the commands on a language model share.
struct LanguageModelOptions : TrainedModelOptions {
  int64_t memory_length = -1;
  bool same_length = false;
  std::string transformer_positions;
};

// The fields of LanguageModelOptions. --precision is that of matrix products and activations.
template <class C>
constexpr auto model_fields(std::string_view precisions) {
  return std::tuple_cat(
      tasks::decoder_fields<C>(precisions),
      std::tuple(
          number("memory-length", &C::memory_length,
                 "units before each segment that the model sees too (-1: as it was trained)", -1, 1 << 24),
          field("same-length", &C::same_length,
                "every unit sees itself and --memory-length units before it, not those of its segment as well"),
          field(
              "transformer-positions", &C::transformer_positions,
              "the trained positions with another clamp, such as transformer-xl(clamp=820): the greatest distance that "
              "counts (default: as trained)")));
}

}  // namespace fovea::language
