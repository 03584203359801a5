#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/analysis/alignment.h"
#include "fovea/tasks/translation/cross_attention.h"

namespace fovea::translation {

// Compares the links of every layer and head with a gold alignment, as they are and shifted.
class HeadSearch {
 public:
  // For a model with this number of layers and heads; `soft` as in LinkChoice.
  HeadSearch(int64_t layers, int64_t heads, bool soft);
  void add(const at::Tensor& weights, const WordPair& pair, const analysis::GoldLinks& gold);

  // A row per layer and head, where 0 is the mean; then two means over the layers: of the AER of the mean of a layer's
  // heads (AoL), and of its best head's (AoH).
  // `pairs`: how many the text has.
  std::string table(int64_t pairs) const;
  std::string json(int64_t pairs) const;

 private:
  struct Place {
    int64_t layer, head;
    bool shifted;
  };
  // The mean over all layers, and the layers each with their mean and their heads.
  std::vector<Place> places(bool shifted) const;
  size_t index(const Place& place) const;
  const analysis::AlignmentCounts& at(const Place& place) const { return counts_[index(place)]; }
  // The least AER of these places; a place without one does not count, and if none has one, nothing.
  const Place* best_of(const std::vector<Place>& places) const;
  struct Means {
    std::optional<double> of_layers, of_heads;
  };
  Means means(bool shifted) const;

  int64_t layers_, heads_;
  bool soft_;
  std::vector<analysis::AlignmentCounts> counts_;  // [2, layers + 1, heads + 1]
};

}  // namespace fovea::translation
