#include "fovea/analysis/alignment.h"

#include <algorithm>
#include <iterator>

namespace fovea::analysis {
namespace {

int64_t count_common(const Links& a, const Links& b) {
  Links common;
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  return std::ssize(common);
}

std::optional<double> share(int64_t part, int64_t of) {
  if (of == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(of);
}

}  // namespace

void sort_links(Links& links) {
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
}

Links strongest_links(const AlignmentWeights& weights) {
  Links links;
  for (int64_t row = 0; row < weights.rows; ++row) {
    const std::span<const float> values(weights.data + row * weights.stride, static_cast<size_t>(weights.columns));
    const auto best = std::ranges::max_element(values);
    if (best != values.end() && *best > 0) links.push_back({best - values.begin(), row});
  }
  sort_links(links);
  return links;
}

Links links_of_words(const Links& links, const UnitWords& source, const UnitWords& target) {
  Links words;
  for (const Link& link : links) {
    words.push_back({source.words[static_cast<size_t>(link.source)], target.words[static_cast<size_t>(link.target)]});
  }
  sort_links(words);
  return words;
}

std::vector<float> weights_of_words(const AlignmentWeights& weights, const UnitWords& source, const UnitWords& target) {
  std::vector<double> sums(static_cast<size_t>(source.num_words * target.num_words));
  std::vector<int64_t> units(static_cast<size_t>(target.num_words));
  for (int64_t row = 0; row < weights.rows; ++row) {
    const int64_t word = target.words[static_cast<size_t>(row)];
    ++units[static_cast<size_t>(word)];
    for (int64_t column = 0; column < weights.columns; ++column) {
      const int64_t other = source.words[static_cast<size_t>(column)];
      sums[static_cast<size_t>(word * source.num_words + other)] += weights.data[row * weights.stride + column];
    }
  }
  std::vector<float> means(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t divisor = std::max<int64_t>(1, units[i / static_cast<size_t>(source.num_words)]);
    means[i] = static_cast<float>(sums[i] / static_cast<double>(divisor));
  }
  return means;
}

void AlignmentCounts::add(const Links& links, const GoldLinks& gold) {
  links_ += std::ssize(links);
  sure_ += std::ssize(gold.sure);
  possible_ += std::ssize(gold.possible);
  links_in_sure_ += count_common(links, gold.sure);
  links_in_possible_ += count_common(links, gold.possible);
}

std::optional<double> AlignmentCounts::error_rate() const {
  const std::optional<double> found = share(links_in_sure_ + links_in_possible_, links_ + sure_);
  if (!found) return std::nullopt;
  return 1 - *found;
}
std::optional<double> AlignmentCounts::precision() const { return share(links_in_possible_, links_); }
std::optional<double> AlignmentCounts::recall() const { return share(links_in_sure_, sure_); }

}  // namespace fovea::analysis
