#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "fovea/analysis/alignment.h"

namespace fovea::analysis {
namespace {

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

}  // namespace

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

}  // namespace fovea::analysis
