#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::metrics {

struct ChrfOptions {
  int64_t word_order = 0;  // 2 for chrF++
  bool lowercase = false;
  bool whitespace = false;  // count white space as characters
};

// The statistics of a segment: n-grams of the hypothesis, of the reference, and in both, for every order.
struct ChrfStats {
  struct Order {
    int64_t hypothesis = 0, reference = 0, matches = 0;
    bool operator==(const Order&) const = default;
  };
  std::vector<Order> orders;
  ChrfStats& operator+=(const ChrfStats& other);
  bool operator==(const ChrfStats&) const = default;
};

// chrF2 (Popović 2015) and chrF2++ (Popović 2017) as sacreBLEU computes them: characters up to order 6, recall twice
// as important as precision, averaged over the orders that both sides have.
class Chrf {
 public:
  explicit Chrf(ChrfOptions options = {}) : options_(options) {}
  // The statistics for the reference with the best score among several.
  ChrfStats segment(std::string_view hypothesis, std::span<const std::string> references) const;
  double score(const ChrfStats& stats) const;      // 0 to 100
  std::string name() const;                        // chrF2, chrF2++
  std::string signature(size_t references) const;  // "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"

 private:
  ChrfOptions options_;
};

}  // namespace fovea::metrics
