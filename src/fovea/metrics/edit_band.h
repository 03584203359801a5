#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace fovea::metrics {

// The edit distance of two lists of words, looked for near the diagonal alone: the word at some share of the hypothesis
// meets the reference's words at most 25 places from the same share, or more if the lengths differ so much that rows
// would not touch. Work and memory grow like the two lengths together. The distance is the exact one if a cheapest way
// stays near the diagonal, and otherwise higher, as tercom's is.
class EditBand {
 public:
  using Words = std::span<const uint32_t>;

  // A cheapest way from the hypothesis to the reference. Of equally cheap ways it is the one that, read from the end,
  // substitutes rather than deletes, and deletes rather than inserts.
  struct Alignment {
    std::vector<int64_t> places;  // [reference]: the last word of the hypothesis used up to this one, -1: none
    std::vector<bool> hypothesis_errors, reference_errors;  // the words that match nothing
  };

  // `reference` must outlive the object.
  EditBand(Words hypothesis, Words reference);

  const std::vector<uint32_t>& hypothesis() const { return hypothesis_; }
  int64_t distance() const { return from_start_.back().costs.back(); }
  Alignment alignment() const;

  // Returns the distance if the hypothesis had these words from its word `first` on, at the cost of these words alone.
  int64_t distance_with(int64_t first, Words changed);
  void change(int64_t first, Words changed);

 private:
  static constexpr int32_t kUnreached = std::numeric_limits<int32_t>::max() / 4;

  // Costs of using up words of both texts: of the hypothesis as many as the row's number, and of the reference `begin`,
  // `begin` + 1 ... words. Other numbers of words of the reference are never reached.
  struct Row {
    int64_t begin = 0;
    std::vector<int32_t> costs;
    int64_t end() const { return begin + std::ssize(costs); }
    int32_t at(int64_t used) const {
      return used < begin || used >= end() ? kUnreached : costs[static_cast<size_t>(used - begin)];
    }
  };

  void fill_from_start(int64_t row);
  void fill_to_end(int64_t row);
  void step(uint32_t word, const Row& above, Row& row) const;
  void step_back(uint32_t word, const Row& below, Row& row) const;

  std::vector<uint32_t> hypothesis_;
  Words reference_;
  std::vector<Row> from_start_, to_end_;  // [hypothesis + 1]: the costs up to there, and from there to the end
  std::array<Row, 2> scratch_;
};

}  // namespace fovea::metrics
