#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Word alignments: out of attention weights, from and to text, and their error against a gold alignment.
namespace fovea::analysis {

// A link between a source unit and a target unit (word or piece), both from 0.
struct Link {
  int64_t source = 0, target = 0;
  auto operator<=>(const Link&) const = default;
};
using Links = std::vector<Link>;  // sorted, each link once
// Sorts links and leaves each of them once.
void sort_links(Links& links);

// Attention weights of a sentence pair: target units in rows, `stride` apart, source units in columns. </s> is in
// neither.
struct AlignmentWeights {
  const float* data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
};

// Returns a link from each row to its greatest weight, the first of equal ones. A row without a positive weight, such
// as a null row of ReLA, has no link.
Links strongest_links(const AlignmentWeights& weights);

// The word of each unit, from 0, and the number of words.
struct UnitWords {
  std::span<const int64_t> words;
  int64_t num_words = 0;
};

// Returns the pairs of words of which at least one pair of units is linked ("hard").
Links links_of_words(const Links& links, const UnitWords& source, const UnitWords& target);

// Returns weights [target words, source words], the sum over a source word's units and the mean over a target word's
// ("soft"). Rows that sum to 1 still do. The weights of a word without units are 0.
std::vector<float> weights_of_words(const AlignmentWeights& weights, const UnitWords& source, const UnitWords& target);

// Returns "0-0 1-2": Pharaoh's format, from 0, source first.
std::string print(const Links& links);

// How a file writes its links: its first unit is `base`; reversed: the target comes first.
struct LinkFormat {
  int64_t base = 0;
  bool reversed = false;
};

// A gold alignment of a sentence pair. `possible` holds the sure links, too.
struct GoldLinks {
  Links sure, possible;
};

// Parses a line of "1-2" for sure links, "1p2" or "1?2" for possible ones, between blanks. Throws an Error of one line
// for other text, and for links outside of the sentences, whose lengths are in words.
struct SentenceLengths {
  int64_t source = 0, target = 0;
};
GoldLinks parse_gold_links(std::string_view line, const LinkFormat& format, const SentenceLengths& lengths);

enum class Symmetrization : uint8_t { kIntersect, kUnion, kGrowDiagFinalAnd };
inline constexpr std::string_view kSymmetrizations = "intersect|union|grow-diag-final-and";  // in this order

// Joins the links of both directions, in each source first. grow-diag-final-and (Koehn, Och, Marcu 2003): the
// intersection, grown by the union's links that touch it and have an unlinked word, until nothing changes; then by the
// links of `forward`, then of `backward`, of two unlinked words.
Links symmetrize(const Links& forward, const Links& backward, Symmetrization how);

// Counts over a corpus: A the alignment's links, S the sure and P the possible gold links, S within P.
class AlignmentCounts {
 public:
  void add(const Links& links, const GoldLinks& gold);
  int64_t links() const { return links_; }
  int64_t sure() const { return sure_; }
  int64_t possible() const { return possible_; }
  // Alignment error rate, 1 - (|A and S| + |A and P|) / (|A| + |S|); |A and P| / |A|; |A and S| / |S|. Nothing if the
  // divisor is 0.
  std::optional<double> error_rate() const;
  std::optional<double> precision() const;
  std::optional<double> recall() const;

 private:
  int64_t links_ = 0, sure_ = 0, possible_ = 0, links_in_sure_ = 0, links_in_possible_ = 0;
};

}  // namespace fovea::analysis
