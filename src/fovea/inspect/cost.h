#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/inspect/analyze_options.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/run_options.h"

// `fovea analyze --cost`, for models of every task.
namespace fovea::inspect {

// Words (target tokens) a second of one tenth of the pairs, by source length.
struct SpeedRecord {
  std::string spec;
  int64_t group = 0, pairs = 0, shortest = 0, longest = 0;  // from 1; source lengths in tokens
  double training = 0, decoding = 0;
};

// Units a second of a language model at one length.
struct LengthSpeedRecord {
  std::string spec;
  int64_t length = 0, segments = 0;  // segments of that length that were trained on
  double training = 0, decoding = 0;
};

// The measured speeds of all entries of --sweep; both may be empty.
struct CostSpeeds {
  std::vector<SpeedRecord> by_source = {};
  std::vector<LengthSpeedRecord> by_length = {};
};

// Adds the speeds of the model under `mechanisms`, which the records call `spec`.
using MeasureSpeeds =
    std::function<void(const AttentionOverride& mechanisms, const std::string& spec, CostSpeeds& speeds)>;

// Writes the costs of the mechanisms of --sweep, or of `mechanisms` over those of the trained model; with --train-sets,
// the speeds too.
void write_costs(const AnalysisOptions& options, const AttentionOverride& mechanisms, const ModelConfig& trained,
                 const MeasureSpeeds& measure);

}  // namespace fovea::inspect
