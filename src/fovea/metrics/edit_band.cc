#include "fovea/metrics/edit_band.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fovea::metrics {
namespace {

constexpr int64_t kBeam = 25;

}  // namespace

EditBand::EditBand(Words hypothesis, Words reference)
    : hypothesis_(hypothesis.begin(), hypothesis.end()), reference_(reference) {
  const int64_t rows = std::ssize(hypothesis), columns = std::ssize(reference);
  const double ratio = rows > 0 ? static_cast<double>(columns) / static_cast<double>(rows) : 1;
  const int64_t beam = kBeam < ratio / 2 ? static_cast<int64_t>(std::ceil(ratio / 2 + kBeam)) : kBeam;
  for (int64_t i = 0; i <= rows; ++i) {
    const auto middle = static_cast<int64_t>(std::floor(static_cast<double>(i) * ratio));
    const int64_t begin = i == 0 ? 0 : std::max<int64_t>(0, middle - beam);
    const int64_t end = i == 0 || i == rows ? columns + 1 : std::min(columns + 1, middle + beam);
    from_start_.push_back({begin, std::vector<int32_t>(static_cast<size_t>(end - begin))});
  }
  to_end_ = from_start_;
  std::iota(from_start_.front().costs.begin(), from_start_.front().costs.end(), 0);
  std::iota(to_end_.back().costs.rbegin(), to_end_.back().costs.rend(), 0);
  fill_from_start(1);
  fill_to_end(rows - 1);
}

// The costs of this row and of those after it.
void EditBand::fill_from_start(int64_t row) {
  for (auto i = static_cast<size_t>(row); i < from_start_.size(); ++i)
    step(hypothesis_[i - 1], from_start_[i - 1], from_start_[i]);
}

// The costs of this row and of those before it.
void EditBand::fill_to_end(int64_t row) {
  for (int64_t i = row; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    step_back(hypothesis_[at], to_end_[at + 1], to_end_[at]);
  }
}

void EditBand::step(uint32_t word, const Row& above, Row& row) const {
  int32_t left = kUnreached, diagonal = above.at(row.begin - 1);
  for (int64_t used = row.begin; used < row.end(); ++used) {
    const int32_t over = above.at(used);
    int32_t cost = std::min(over, left) + 1;
    if (used > 0) cost = std::min(cost, diagonal + (word != reference_[static_cast<size_t>(used - 1)] ? 1 : 0));
    row.costs[static_cast<size_t>(used - row.begin)] = left = cost;
    diagonal = over;
  }
}

void EditBand::step_back(uint32_t word, const Row& below, Row& row) const {
  int32_t right = kUnreached, diagonal = below.at(row.end());
  for (int64_t used = row.end() - 1; used >= row.begin; --used) {
    const int32_t under = below.at(used);
    int32_t cost = std::min(under, right) + 1;
    if (used < std::ssize(reference_))
      cost = std::min(cost, diagonal + (word != reference_[static_cast<size_t>(used)] ? 1 : 0));
    row.costs[static_cast<size_t>(used - row.begin)] = right = cost;
    diagonal = under;
  }
}

// Costs up to the changed words and from them on stay as they are, so that the rows between them are enough.
int64_t EditBand::distance_with(int64_t first, Words changed) {
  auto i = static_cast<size_t>(first);
  const Row* above = &from_start_[i];
  for (const uint32_t word : changed) {
    Row& row = scratch_[++i % 2];
    row.begin = from_start_[i].begin;
    row.costs.resize(from_start_[i].costs.size());
    step(word, *above, row);
    above = &row;
  }
  const Row& rest = to_end_[i];
  int32_t least = kUnreached;
  for (size_t cell = 0; cell < rest.costs.size(); ++cell)
    least = std::min(least, above->costs[cell] + rest.costs[cell]);
  return least;
}

void EditBand::change(int64_t first, Words changed) {
  std::ranges::copy(changed, hypothesis_.begin() + first);
  fill_from_start(first + 1);
  fill_to_end(first + std::ssize(changed) - 1);
}

EditBand::Alignment EditBand::alignment() const {
  size_t i = hypothesis_.size(), j = reference_.size();
  Alignment alignment{std::vector<int64_t>(j), std::vector<bool>(i), std::vector<bool>(j)};
  while (i > 0 || j > 0) {
    const auto used = static_cast<int64_t>(j);
    const int32_t cost = from_start_[i].at(used);
    const bool differs = i > 0 && j > 0 && hypothesis_[i - 1] != reference_[j - 1];
    if (i > 0 && j > 0 && cost == from_start_[i - 1].at(used - 1) + (differs ? 1 : 0)) {
      alignment.hypothesis_errors[--i] = differs;
      alignment.reference_errors[--j] = differs;
      alignment.places[j] = static_cast<int64_t>(i);
    } else if (i > 0 && cost == from_start_[i - 1].at(used) + 1) {
      alignment.hypothesis_errors[--i] = true;
    } else {
      alignment.reference_errors[--j] = true;
      alignment.places[j] = static_cast<int64_t>(i) - 1;
    }
  }
  return alignment;
}

}  // namespace fovea::metrics
