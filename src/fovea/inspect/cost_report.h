#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/analysis/cost.h"
#include "fovea/spec/attention_config.h"

// The output of `fovea analyze --cost`.
namespace fovea::inspect {

// The cost of one layer's attention under one mechanism, at one length.
struct CostRecord {
  std::string spec;  // as given; "trained" for the model's own
  Sublayer sublayer = Sublayer::kDecoder;
  int64_t layer = 0;  // from 1
  std::string mechanism;
  int64_t length = 0;
  analysis::AttentionCost cost;
  double projection_flops = 0;
};

struct CostShape {
  int64_t heads = 0, width = 0;
  std::vector<std::pair<Sublayer, int64_t>> depths;
};
// The records of a model's attentions, all sublayers of `shape`, with as many keys as queries.
std::vector<CostRecord> cost_records(const std::string& spec, const CostShape& shape,
                                     const std::function<LayerSpec(Sublayer sublayer, int64_t layer)>& mechanism,
                                     const std::vector<int64_t>& lengths);

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

// The measured speeds; both may be empty.
struct CostSpeeds {
  std::vector<SpeedRecord> by_source = {};
  std::vector<LengthSpeedRecord> by_length = {};
};
std::string cost_table(const std::vector<CostRecord>& costs, const CostSpeeds& speeds);
std::string cost_json(const std::vector<CostRecord>& costs, const CostSpeeds& speeds);

}  // namespace fovea::inspect
