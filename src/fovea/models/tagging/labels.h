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

// The labels that a tagger chooses from: O, B-TYPE and I-TYPE of each type of names, in the form of the training data,
// and labels that mark no chunks.
class LabelSet {
 public:
  // The labels of training data.
  static LabelSet of(std::span<const Labels> sentences, const metrics::LabelForm& form = {});
  // Reads contents() of labels of that form. Throws an Error that begins with `origin` for anything else.
  static LabelSet from_contents(const std::string& contents, const std::string& origin,
                                const metrics::LabelForm& form = {});
  std::string contents() const;  // one label per line

  int64_t size() const { return std::ssize(names_); }
  const Labels& names() const { return names_; }  // in IOB2
  const metrics::LabelForm& form() const { return form_; }
  bool marks_chunk(const std::string& label) const;
  // The number of each word's label, whatever the dialect and the form of `labels`; -1 for a label that is not in the
  // set.
  std::vector<int64_t> encode(const Labels& labels, const metrics::LabelForm& form) const;
  std::vector<int64_t> encode(const Labels& labels) const { return encode(labels, form_); }
  // The labels of these numbers in a dialect.
  Labels decode(std::span<const int64_t> ids, metrics::LabelDialect dialect) const;
  // The numbers of B and I of the type that label `id` continues; {-1, -1} unless it is an I.
  std::pair<int64_t, int64_t> continued(int64_t id) const { return continued_.at(static_cast<size_t>(id)); }
  bool has_chunks() const { return has_chunks_; }

 private:
  LabelSet(Labels names, const metrics::LabelForm& form);
  metrics::LabelForm form_;
  Labels names_;  // in IOB2
  std::map<std::string, int64_t> ids_;
  std::vector<std::pair<int64_t, int64_t>> continued_;
  bool has_chunks_ = false;
};

// The most probable labels of a sentence in which I follows only B or I of its type. `scores` are the natural
// logarithms of probabilities, [words, labels] row by row. Between equal labels, the first counts.
std::vector<int64_t> best_labels(std::span<const double> scores, const LabelSet& labels);

}  // namespace fovea::tagging
