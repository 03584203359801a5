#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/analysis/row_measures.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/nn/weight_blocks.h"

// Figures of a model's attention over a text, from full passes that an observer watches.
namespace fovea::inspect {

// The grouping of one sequence's tokens into units (words), and the labels that are counted. A unit's number is never
// less than that of the token before. Empty: each token is a unit.
struct SequenceUnits {
  std::span<const int32_t> queries = {}, keys = {};
  std::span<const int64_t> labels = {};  // of each unit of queries; empty: none
  int64_t first_position = 0;            // where the first unit of queries stands, as a unit of keys
  int64_t end_key = -1;                  // units of keys, see analysis::QueryWeights
  int64_t last_begin = 0, last_end = 0;
};

// A figure of one record; null (NaN) if it is a mean over nothing.
using Figures = std::vector<std::pair<std::string, double>>;

// The figures of one head, or with head 0 those of a layer's attention, the mean of its heads.
struct AttentionRecord {
  std::string kind;  // encoder, decoder or cross
  int64_t layer = 0, head = 0;
  Figures figures;
};
// The figures for the queries of one label.
struct LabelRecord {
  std::string kind;
  int64_t layer = 0, head = 0, label = 0;
  Figures figures;
};
// The divergence of heads of two sorts, over draws of a pair of heads.
struct SortRecord {
  std::string kind;
  int64_t layer = 0;
  std::string heads;  // "local-routed"
  Figures figures;
};

class AttentionStatistics {
 public:
  struct Options {
    std::vector<double> taus = {1};
    int64_t draws = 10;  // of pairs of heads
    int64_t seed = 1;
  };
  // Says how the tokens of sequence `sequence` of the pass make units.
  using UnitsOf = std::function<SequenceUnits(AttentionKind kind, int64_t sequence)>;

  explicit AttentionStatistics(Options options) : options_(std::move(options)) {}

  // Adds what one attention of a pass shows. Throws an Error for weights that are not finite.
  void add(const nn::SeenAttention& seen, const UnitsOf& units);

  std::vector<AttentionRecord> records() const;
  std::vector<SortRecord> sorts() const;  // none unless a layer has heads of several sorts
  std::vector<LabelRecord> labels() const;

 private:
  struct Place;
  Place& place_of(const nn::SeenAttention& seen);
  using Key = std::pair<AttentionKind, int64_t>;  // kind, and the attention's number in the model
  std::map<Key, std::shared_ptr<Place>> places_;
  Options options_;
};

}  // namespace fovea::inspect
