#include "fovea/models/beam_options.h"

namespace fovea::models {

search::BeamOptions beam_options(const BeamConfig& config) {
  search::BeamOptions beam;
  beam.beam_size = config.beam_size;
  beam.normalize = config.normalize;
  beam.penalty = config.length_penalty == "gnmt" ? search::LengthPenalty::kGnmt : search::LengthPenalty::kPower;
  beam.num_best = config.n_best ? config.beam_size : 1;
  return beam;
}

}  // namespace fovea::models
