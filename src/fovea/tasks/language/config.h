#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "fovea/base/fields.h"
#include "fovea/spec/model_config.h"

namespace fovea::language {

inline constexpr const char* kTask = "language";

// The configuration that a language model's checkpoint keeps: the decoder-only model, and how it read text in training,
// which scoring and generation follow.
struct LanguageConfig : DecoderConfig {
  LanguageConfig() { transformer_dropout = 0; }  // a training rarely reads all of its text

  int64_t segment_length = 512;
  std::string documents = "no";
  int64_t memory_length = -1;  // -1: as far as spans reach, see memory_of()
  bool same_length = false;

  static constexpr auto fields() {
    using C = LanguageConfig;
    return std::tuple_cat(
        std::tuple(
            number("segment-length", &C::segment_length, "units that the model reads at once", 1, 1 << 24),
            choice("documents", &C::documents,
                   "where a document begins, before which no unit sees: nowhere, behind empty lines, or at each "
                   "file",
                   "no|blank|file"),
            number("memory-length", &C::memory_length,
                   "units before each segment whose states self-attention sees too (Transformer-XL); 0: none, -1: the "
                   "limit of span(limit,ramp), none without it",
                   -1, 1 << 24),
            field("same-length", &C::same_length,
                  "every unit sees itself and --memory-length units before it, not those of its segment as well")),
        DecoderConfig::fields());
  }
};

// Units of memory: --memory-length or, if that is -1, the greatest limit of a span.
int64_t memory_of(const LanguageConfig& config);

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const LanguageConfig& config);

// Throws an Error that names `option` if the model has learned positions for fewer than `length` units.
void require_positions(const LanguageConfig& config, int64_t length, std::string_view option);

}  // namespace fovea::language
