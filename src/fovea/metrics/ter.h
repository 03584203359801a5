#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fovea::metrics {

struct TerOptions {
  bool case_sensitive = false;
  bool normalized = false;     // take the tokens of tercom's normalisation
  bool no_punct = false;       // remove punctuation marks
  bool asian_support = false;  // both of these for East Asian text too
};

// The statistics of a segment; sums of segments are corpora.
struct TerStats {
  int64_t edits = 0;            // for the reference that needs the fewest
  double reference_length = 0;  // in words; the mean over several references
  TerStats& operator+=(const TerStats& other);
  bool operator==(const TerStats&) const = default;
};

// The translation edit rate (Snover et al. 2006) as sacreBLEU computes it: the edits that make the translation the
// reference, in percent of the reference's words. An edit inserts, deletes or substitutes a word, or shifts a run of
// words to another place. Lower is better.
class Ter {
 public:
  explicit Ter(TerOptions options = {}) : options_(options) {}
  TerStats segment(std::string_view hypothesis, std::span<const std::string> references) const;
  double score(const TerStats& stats) const;  // from 0 on; more than 100 for text that is longer than the reference
  // "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0"
  std::string signature(size_t references) const;

 private:
  TerOptions options_;
};

// Returns the edits that the words of a translation need. A greedy search like tercom's finds the shifts:
// at most 10 words at once, to a place at most 50 words away, with 1000 tries in a segment.
int64_t ter_edits(std::span<const uint32_t> hypothesis, std::span<const uint32_t> reference);

}  // namespace fovea::metrics
