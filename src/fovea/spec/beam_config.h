#pragma once
#include <cstdint>
#include <string>
#include <tuple>

#include "fovea/base/fields.h"

namespace fovea {

// The fields of commands that search for the most probable text, as a base of their configurations.
struct BeamConfig {
  int64_t beam_size = 5;
  double normalize = 1;
  std::string length_penalty = "power";
  bool n_best = false, scores = false, allow_unk = false;

  static constexpr auto fields() {
    using C = BeamConfig;
    return std::tuple(
        named(number("beam-size", &C::beam_size, "hypotheses kept; 1 is greedy", 1, 1000), "b"),
        named(number("normalize", &C::normalize, "exponent of the length penalty; 0 is none", 0, 100), "n"),
        choice("length-penalty", &C::length_penalty,
               "power: log p / length^x (Marian, fairseq); gnmt: log p / ((5 + length) / 6)^x", "power|gnmt"),
        field("n-best", &C::n_best, "all hypotheses of the beam: ID ||| text ||| F0= log p ||| score"),
        field("scores", &C::scores, "score ||| text"));
  }
  static constexpr auto allow_unk_field(std::string_view help) {
    return field("allow-unk", &BeamConfig::allow_unk, help);
  }
};

}  // namespace fovea
