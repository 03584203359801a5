#include "fovea/models/tagging/labels.h"

#include <algorithm>
#include <limits>
#include <set>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::tagging {

using metrics::Chunk;
using metrics::LabelDialect;
using metrics::LabelForm;

LabelSet::LabelSet(Labels names, const LabelForm& form) : form_(form), names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) ids_[names_[i]] = static_cast<int64_t>(i);
  for (const std::string& name : names_) {
    const metrics::LabelParts parts = metrics::parts_of_label(name, form_);
    has_chunks_ = has_chunks_ || parts.prefix == 'B';
    continued_.emplace_back(-1, -1);
    if (parts.prefix == 'I') continued_.back() = {ids_.at(label_in_form('B', parts.type, form_)), ids_.at(name)};
  }
}

bool LabelSet::marks_chunk(const std::string& label) const {
  const char prefix = metrics::parts_of_label(label, form_).prefix;
  return prefix != 'O' && prefix != 'W';
}

LabelSet LabelSet::of(std::span<const Labels> sentences, const LabelForm& form) {
  std::set<std::string> types, words;
  const std::string outside(form.outside());
  bool has_outside = false;
  for (const Labels& labels : sentences) {
    has_outside = has_outside || std::ranges::find(labels, outside) != labels.end();
    for (const Chunk& chunk : metrics::chunks_of(labels, form)) (chunk.is_word ? words : types).insert(chunk.type);
  }
  Labels names;
  if (has_outside || !types.empty()) names.push_back(outside);
  for (const std::string& type : types) {
    names.push_back(label_in_form('B', type, form));
    names.push_back(label_in_form('I', type, form));
  }
  names.insert(names.end(), words.begin(), words.end());
  return {std::move(names), form};
}

LabelSet LabelSet::from_contents(const std::string& contents, const std::string& origin, const LabelForm& form) {
  Labels names = split(contents, '\n');
  if (names.back().empty()) names.pop_back();
  const std::set<std::string> different(names.begin(), names.end());
  bool is_whole = !names.empty() && different.size() == names.size() && !different.contains("");
  for (const std::string& name : names) {
    const metrics::LabelParts parts = metrics::parts_of_label(name, form);
    if (parts.prefix == 'I') is_whole = is_whole && different.contains(label_in_form('B', parts.type, form));
    if (parts.prefix == 'B')
      is_whole = is_whole && different.contains(label_in_form('I', parts.type, form)) &&
                 different.contains(std::string(form.outside()));
    if (parts.prefix == 'E' || parts.prefix == 'S') is_whole = false;
    if (!is_valid_utf8(name) || std::ranges::any_of(name, is_space)) is_whole = false;
  }
  if (!is_whole)
    throw Error(cat(origin, ": damaged: expected different labels, one per line, ",
                    label_in_form('I', form.has_types ? "TYPE" : "", form), " with each ",
                    label_in_form('B', form.has_types ? "TYPE" : "", form)));
  return {std::move(names), form};
}

std::string LabelSet::contents() const { return join(names_, "\n") + "\n"; }

std::vector<int64_t> LabelSet::encode(const Labels& labels, const LabelForm& form) const {
  const std::vector<Chunk> chunks = metrics::chunks_of(labels, form);
  std::vector<int64_t> ids;
  for (const std::string& label : metrics::labels_of(chunks, std::ssize(labels), {LabelDialect::kIob2, form_})) {
    const auto found = ids_.find(label);
    ids.push_back(found == ids_.end() ? -1 : found->second);
  }
  return ids;
}

Labels LabelSet::decode(std::span<const int64_t> ids, LabelDialect dialect) const {
  Labels labels;
  for (const int64_t id : ids) labels.push_back(names_.at(static_cast<size_t>(id)));
  return metrics::labels_of(metrics::chunks_of(labels, form_), std::ssize(labels), {dialect, form_});
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
