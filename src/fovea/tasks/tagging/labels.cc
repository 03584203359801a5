#include "fovea/tasks/tagging/labels.h"

#include <algorithm>
#include <limits>
#include <set>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::tagging {

using metrics::Chunk;
using metrics::LabelDialect;

LabelSet::LabelSet(Labels names) : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) ids_[names_[i]] = static_cast<int64_t>(i);
  for (const std::string& name : names_) {
    const metrics::LabelParts parts = metrics::parts_of_label(name);
    has_chunks_ = has_chunks_ || parts.prefix == 'B';
    continued_.emplace_back(-1, -1);
    if (parts.prefix == 'I') continued_.back() = {ids_.at(cat("B-", parts.type)), ids_.at(name)};
  }
}

LabelSet LabelSet::of(std::span<const Labels> sentences) {
  std::set<std::string> types, words;
  bool has_outside = false;
  for (const Labels& labels : sentences) {
    has_outside = has_outside || std::ranges::find(labels, "O") != labels.end();
    for (const Chunk& chunk : metrics::chunks_of(labels)) (chunk.is_word ? words : types).insert(chunk.type);
  }
  Labels names;
  if (has_outside || !types.empty()) names.emplace_back("O");
  for (const std::string& type : types) {
    names.push_back(cat("B-", type));
    names.push_back(cat("I-", type));
  }
  names.insert(names.end(), words.begin(), words.end());
  return LabelSet(std::move(names));
}

LabelSet LabelSet::from_contents(const std::string& contents, const std::string& origin) {
  Labels names = split(contents, '\n');
  if (names.back().empty()) names.pop_back();
  const std::set<std::string> different(names.begin(), names.end());
  bool is_whole = !names.empty() && different.size() == names.size() && !different.contains("");
  for (const std::string& name : names) {
    const metrics::LabelParts parts = metrics::parts_of_label(name);
    if (parts.prefix == 'I') is_whole = is_whole && different.contains(cat("B-", parts.type));
    if (parts.prefix == 'B')
      is_whole = is_whole && different.contains(cat("I-", parts.type)) && different.contains("O");
    if (parts.prefix == 'E' || parts.prefix == 'S') is_whole = false;
    if (!is_valid_utf8(name) || std::ranges::any_of(name, is_space)) is_whole = false;
  }
  if (!is_whole)
    throw Error(cat(origin, ": damaged: expected different labels, one per line, I-TYPE with each B-TYPE"));
  return LabelSet(std::move(names));
}

std::string LabelSet::contents() const { return join(names_, "\n") + "\n"; }

std::vector<int64_t> LabelSet::encode(const Labels& labels) const {
  const std::vector<Chunk> chunks = metrics::chunks_of(labels);
  std::vector<int64_t> ids;
  for (const std::string& label : metrics::labels_of(chunks, std::ssize(labels), LabelDialect::kIob2)) {
    const auto found = ids_.find(label);
    ids.push_back(found == ids_.end() ? -1 : found->second);
  }
  return ids;
}

Labels LabelSet::decode(std::span<const int64_t> ids, LabelDialect dialect) const {
  Labels labels;
  for (const int64_t id : ids) labels.push_back(names_.at(static_cast<size_t>(id)));
  return metrics::labels_of(metrics::chunks_of(labels), std::ssize(labels), dialect);
}

std::vector<int64_t> best_labels(std::span<const double> scores, const LabelSet& labels) {
  const auto count = static_cast<size_t>(labels.size());
  const size_t words = scores.size() / count;
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  std::vector<double> sums(count, 0), next(count);
  std::vector<size_t> from(words * count);  // of the best way to each label, the label before
  for (size_t w = 0; w < words; ++w) {
    const auto best = static_cast<size_t>(std::ranges::max_element(sums) - sums.begin());
    for (size_t label = 0; label < count; ++label) {
      const auto [begin, inner] = labels.continued(static_cast<int64_t>(label));
      size_t before = best;
      if (begin >= 0) {
        const auto b = static_cast<size_t>(begin), i = static_cast<size_t>(inner);
        before = sums[i] > sums[b] ? i : b;
      }
      const bool is_impossible = w == 0 && begin >= 0;
      from[w * count + label] = before;
      next[label] = is_impossible ? kNever : sums[before] + scores[w * count + label];
    }
    std::swap(sums, next);
  }
  std::vector<int64_t> result(words);
  auto label = static_cast<size_t>(std::ranges::max_element(sums) - sums.begin());
  for (size_t w = words; w-- > 0;) {
    result[w] = static_cast<int64_t>(label);
    label = from[w * count + label];
  }
  return result;
}

}  // namespace fovea::tagging
