#include "fovea/analysis/alignment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <set>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

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

// Links in the order of the algorithm's loops: by target word, then by source word.
struct ByTarget {
  bool operator()(const Link& a, const Link& b) const {
    return a.target != b.target ? a.target < b.target : a.source < b.source;
  }
};

class GrownLinks {
 public:
  explicit GrownLinks(const Links& start) {
    for (const Link& link : start) add(link);
  }

  // A pass visits the links that it adds, if they come later in the order.
  void grow(const Links& among) {
    static constexpr std::array kNeighbours = {Link{0, -1},  Link{-1, 0}, Link{0, 1},  Link{1, 0},
                                               Link{-1, -1}, Link{1, -1}, Link{-1, 1}, Link{1, 1}};
    for (bool added = true; added;) {
      added = false;
      for (const Link& link : links_) {
        for (const Link& step : kNeighbours) {
          const Link next{link.source + step.source, link.target + step.target};
          const bool has_unlinked = !sources_.contains(next.source) || !targets_.contains(next.target);
          if (has_unlinked && std::ranges::binary_search(among, next)) {
            add(next);
            added = true;
          }
        }
      }
    }
  }

  // Adds links of two unlinked words.
  void finish(const Links& links) {
    for (const Link& link : std::set<Link, ByTarget>(links.begin(), links.end())) {
      if (!sources_.contains(link.source) && !targets_.contains(link.target)) add(link);
    }
  }

  Links sorted() const {
    Links links(links_.begin(), links_.end());
    std::ranges::sort(links);
    return links;
  }

 private:
  void add(const Link& link) {
    links_.insert(link);  // iterators stay valid
    sources_.insert(link.source);
    targets_.insert(link.target);
  }

  std::set<Link, ByTarget> links_;
  std::set<int64_t> sources_, targets_;
};

constexpr int64_t kMostUnits = int64_t{1} << 40;  // far more than a line has, and far from an overflow

// The number that `text` begins with, which is removed; -1 if there is none.
int64_t take_number(std::string_view& text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.front() == '-' || value > kMostUnits) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

[[noreturn]] void refuse_link(std::string_view text, const LinkFormat& format) {
  throw Error(cat("got '", text, "'; expected links such as ", format.base, "-", format.base + 1,
                  ", or with p or ? in place of - for possible ones, between blanks"));
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

Links symmetrize(const Links& forward, const Links& backward, Symmetrization how) {
  Links common, all;
  std::ranges::set_intersection(forward, backward, std::back_inserter(common));
  if (how == Symmetrization::kIntersect) return common;
  std::ranges::set_union(forward, backward, std::back_inserter(all));
  if (how == Symmetrization::kUnion) return all;
  GrownLinks grown(common);
  grown.grow(all);
  grown.finish(forward);
  grown.finish(backward);
  return grown.sorted();
}

std::string print(const Links& links) {
  std::vector<std::string> texts;
  texts.reserve(links.size());
  for (const Link& link : links) texts.push_back(cat(link.source, "-", link.target));
  return join(texts, " ");
}

GoldLinks parse_gold_links(std::string_view line, const LinkFormat& format, const SentenceLengths& lengths) {
  GoldLinks gold;
  for (const std::string& word : split_words(line)) {
    std::string_view rest = word;
    const int64_t first = take_number(rest);
    const char sign = rest.empty() ? ' ' : rest.front();
    rest.remove_prefix(std::min<size_t>(1, rest.size()));
    const int64_t second = rest.empty() ? -1 : take_number(rest);
    const bool is_possible = sign == 'p' || sign == '?';
    if (first < 0 || second < 0 || !rest.empty() || (sign != '-' && !is_possible)) refuse_link(word, format);
    Link link{first - format.base, second - format.base};
    if (format.reversed) std::swap(link.source, link.target);
    if (std::min(link.source, link.target) < 0 || link.source >= lengths.source || link.target >= lengths.target) {
      const std::string other = format.base == 0 ? "--gold-base 1, " : "";
      throw Error(cat("link ", word, " is outside of the sentences, which have ", lengths.source, " source and ",
                      lengths.target, " target words, counted from ", format.base, "; is it for another text, or does ",
                      "it need ", other, "--gold-reversed?"));
    }
    if (!is_possible) gold.sure.push_back(link);
    gold.possible.push_back(link);
  }
  sort_links(gold.sure);
  sort_links(gold.possible);
  return gold;
}

}  // namespace fovea::analysis
