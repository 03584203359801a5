#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/metrics/chunks.h"

namespace fovea::tagging {

using Labels = std::vector<std::string>;

inline constexpr const char* kLabelsFile = "labels.txt";

// The labels that a tagger chooses from: O, B-TYPE and I-TYPE of each type of names, and labels without a prefix.
class LabelSet {
 public:
  // The labels of training data.
  static LabelSet of(std::span<const Labels> sentences);
  // What contents() gave. Throws an Error that begins with `origin` for anything else.
  static LabelSet from_contents(const std::string& contents, const std::string& origin);
  std::string contents() const;  // one label per line

  int64_t size() const { return std::ssize(names_); }
  const Labels& names() const { return names_; }  // in IOB2
  // The number of each word's label, whatever the dialect of `labels`; -1 for a label that is not in the set.
  std::vector<int64_t> encode(const Labels& labels) const;
  // The labels of these numbers in a dialect.
  Labels decode(std::span<const int64_t> ids, metrics::LabelDialect dialect) const;
  // The numbers of B and I of the type that label `id` continues; {-1, -1} unless it is an I.
  std::pair<int64_t, int64_t> continued(int64_t id) const { return continued_.at(static_cast<size_t>(id)); }
  bool has_chunks() const { return has_chunks_; }

 private:
  explicit LabelSet(Labels names);
  Labels names_;  // in IOB2
  std::map<std::string, int64_t> ids_;
  std::vector<std::pair<int64_t, int64_t>> continued_;
  bool has_chunks_ = false;
};

// The most probable labels of a sentence in which I follows only B or I of its type. `scores` are the natural
// logarithms of probabilities, [words, labels] row by row. Of equal ones the first label counts.
std::vector<int64_t> best_labels(std::span<const double> scores, const LabelSet& labels);

}  // namespace fovea::tagging
