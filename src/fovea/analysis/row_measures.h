#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "fovea/analysis/diversity.h"

// Figures of attention weights, summed query by query: memory does not grow with the number of queries.
namespace fovea::analysis {

// One query: its weights on the keys that it may legally see (keys 0 ... rows.keys - 1), and where it stands.
struct QueryWeights {
  HeadRows rows;
  std::span<const int64_t> underflow = {};  // [H]: how many of a head's zeros are softmax's underflow; empty: none
  double position = 0;                      // among the keys, in keys
  int64_t end_key = -1;                     // the key of </s>, if it is to be counted
  int64_t last_begin = 0, last_end = 0;     // keys of the last word before it
  int64_t label = -1;                       // for figures by label; negative: none
};

// Sums over the queries of one head, or of the mean over a layer's heads.
struct RowSums {
  int64_t rows = 0, null_rows = 0;                            // queries; those without any weight
  int64_t pairs = 0, zeros = 0, underflow = 0;                // legal pairs; with weight 0, underflow apart
  double entropy = 0, distance = 0, on_end = 0, on_last = 0;  // over the rows that are not null
  double given = 0;                                           // magnitudes of all weights
  int64_t weighted_rows() const { return rows - null_rows; }
  int64_t kept() const { return pairs - zeros - underflow; }
  void add(std::span<const float> row, int64_t underflow_zeros, const QueryWeights& query);
};

// Sums over the queries of one label.
struct LabelSums {
  int64_t rows = 0, null_rows = 0, pairs = 0, zeros = 0;
};

// All figures of one layer's attention of one kind.
class LayerMeasures {
 public:
  struct Options {
    std::vector<bool> rectified;                               // [H], see HeadDiversity
    std::vector<double> taus = {1};                            // of the diversity
    std::vector<std::pair<int64_t, int64_t>> head_pairs = {};  // whose divergence is wanted
  };
  explicit LayerMeasures(Options options);
  void add(const QueryWeights& query);

  int64_t num_heads() const { return std::ssize(heads_); }
  const RowSums& head(int64_t head) const { return heads_[static_cast<size_t>(head)]; }
  const RowSums& layer() const { return layer_; }  // of the mean over the heads
  // The diversity with the power taus[tau], the mean over all queries.
  double diversity(size_t tau) const;
  // The mean over the queries for which both heads of pair `pair` have weight; NaN if there are none.
  double pair_divergence(size_t pair) const;
  // The sums by label and head.
  const std::map<std::pair<int64_t, int64_t>, LabelSums>& by_label() const { return by_label_; }
  // The variance over the heads of their shares of null rows, of the population.
  double null_variance() const;

 private:
  Options options_;
  HeadDiversity diversity_;
  std::vector<RowSums> heads_;
  RowSums layer_;
  std::vector<double> diversities_;
  struct PairSum {
    double sum = 0;
    int64_t rows = 0;
  };
  std::vector<PairSum> pairs_;
  std::map<std::pair<int64_t, int64_t>, LabelSums> by_label_;
  std::vector<float> mean_;  // times the number of heads, which changes no figure
};

}  // namespace fovea::analysis
