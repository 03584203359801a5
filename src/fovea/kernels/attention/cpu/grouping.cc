#include "fovea/kernels/attention/cpu/grouping.h"

#include <algorithm>
#include <array>

namespace fovea::kernels {
namespace {

// In cycles, as group_cost() counts them: of a group, of laying out a column's key and value, of a query and a column.
constexpr double kGroupCycles = 500, kColumnCycles = 26, kPairCycles = 8;
constexpr size_t kTileRows = 12;
constexpr std::array<size_t, 10> kSizes = {1, 2, 4, 8, 12, 24, 48, 64, 128, 256};

}  // namespace

void KeyUnion::add(const std::vector<Span>& row) {
  if (spans_.empty()) {
    spans_ = row;
    return;
  }
  merged_.clear();
  size_t a = 0, b = 0;
  while (a < spans_.size() || b < row.size()) {
    const bool left = b == row.size() || (a < spans_.size() && spans_[a].begin <= row[b].begin);
    const Span next = left ? spans_[a++] : row[b++];
    if (!merged_.empty() && next.begin <= merged_.back().end) {
      merged_.back().end = std::max(merged_.back().end, next.end);
    } else {
      merged_.push_back(next);
    }
  }
  spans_.swap(merged_);
}

void KeyUnion::number_columns() {
  starts_.clear();
  columns_ = 0;
  for (const Span& span : spans_) {
    starts_.push_back(columns_);
    columns_ += span.end - span.begin;
  }
}

int64_t KeyUnion::column_of(int64_t key, size_t& from) const {
  // In growing steps, then halving the last one: the next key is mostly near.
  size_t step = 1;
  while (from + step < spans_.size() && spans_[from + step].begin <= key) from += step, step *= 2;
  for (; step > 0; step /= 2) {
    if (from + step < spans_.size() && spans_[from + step].begin <= key) from += step;
  }
  return starts_[from] + key - spans_[from].begin;
}

std::vector<ColumnRange> columns_of(const std::vector<Span>& row, const KeyUnion& keys) {
  std::vector<ColumnRange> ranges;
  size_t at = 0;
  for (const Span& span : row) {
    const auto begin = static_cast<int32_t>(keys.column_of(span.begin, at));
    const auto end = static_cast<int32_t>(begin + span.end - span.begin);
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  }
  return ranges;
}

double group_cost(std::span<const std::vector<Span>> rows, const KeyUnion& keys) {
  double cost = kGroupCycles + kColumnCycles * static_cast<double>(keys.columns());
  // Rows are computed in tiles over the columns from their first to their last.
  for (size_t at = 0; at < rows.size(); at += kTileRows) {
    const size_t end = std::min(rows.size(), at + kTileRows);
    int64_t first = keys.columns(), last = 0;
    for (size_t r = at; r < end; ++r) {
      if (rows[r].empty()) continue;
      size_t span = 0;
      first = std::min(first, keys.column_of(rows[r].front().begin, span));
      last = std::max(last, keys.column_of(rows[r].back().end - 1, span) + 1);
    }
    // A tile of few rows waits for its sums: as dear as four.
    if (last > first)
      cost += kPairCycles * static_cast<double>(std::max<size_t>(end - at, 4) * static_cast<size_t>(last - first));
  }
  return cost;
}

std::vector<int64_t> group_sizes(const ClassRows& members, double& cost) {
  std::vector<int64_t> sizes;
  std::vector<std::vector<Span>> ahead;  // the members from `at` on that were asked for
  KeyUnion keys;
  for (int64_t at = 0; at < members.count;) {
    const auto left = static_cast<size_t>(members.count - at);
    double best = 0;
    size_t best_size = 0, tried = 0;
    keys.clear();
    for (const size_t size : kSizes) {
      const size_t now = std::min(size, left);
      for (; tried < now; ++tried) {
        if (tried == ahead.size()) ahead.push_back(members.row(at + static_cast<int64_t>(tried)));
        keys.add(ahead[tried]);
      }
      keys.number_columns();
      const double here = group_cost(std::span(ahead).first(now), keys) / static_cast<double>(now);
      if (best_size == 0 || here <= best) {
        best = here;
        best_size = now;
      }
      if (now == left || here > 2 * best) break;
    }
    cost += best * static_cast<double>(best_size);
    sizes.push_back(static_cast<int64_t>(best_size));
    ahead.erase(ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(best_size));
    at += static_cast<int64_t>(best_size);
  }
  return sizes;
}

}  // namespace fovea::kernels
