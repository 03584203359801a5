#pragma once
#include <cstdint>

#include "fovea/spec/decode_config.h"
#include "fovea/spec/score_config.h"

namespace fovea::translation {

// `fovea translate`: lines of config.input to config.output, as many as came in, in their order. Returns how many.
int64_t run_translate(const DecodeConfig& config);

// `fovea score`: natural logarithms of p(target | source), </s> included, one per line, or with `summary` one line for
// the whole text. Returns the number of pairs.
int64_t run_score(const ScoreConfig& config);

}  // namespace fovea::translation
