#pragma once
#include <concepts>
#include <cstdint>
#include <string>

#include "fovea/spec/model_config.h"

namespace fovea {

// The greatest number of keys that a query of each sublayer has in training; 0: not known.
struct KeyLengths {
  int64_t encoder = 0, decoder = 0, cross = 0;
};

// Sets the bias of each sigmoid without one to -ln of the greatest number of keys of its sublayer, and says so in the
// log. A checkpoint keeps the number. Throws a UsageError if a length that is needed is not known, or --attention needs
// several.
void set_biases(ModelConfig& config, const KeyLengths& lengths);

template <std::derived_from<ModelConfig> Config>
Config with_biases(Config config, const KeyLengths& lengths) {
  set_biases(config, lengths);
  return config;
}

// Whether `complete` is the mechanism `open` with the biases that it lacks, of which there are some; both may be
// entries of --attention-layers. A run with `complete` is one that was begun with `open`.
bool completes(const std::string& complete, const std::string& open);

}  // namespace fovea
