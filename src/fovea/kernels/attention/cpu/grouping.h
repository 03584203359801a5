#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fovea/kernels/attention/cpu/candidates.h"
#include "fovea/spec/attention_spec.h"

namespace fovea::kernels {

// Sorted, disjoint, non-touching key ranges of a group's queries together, with the column each begins at.
class KeyUnion {
 public:
  void clear() { spans_.clear(); }
  void add(const std::vector<Span>& row);
  void number_columns();  // after the last add
  int64_t columns() const { return columns_; }
  // The column of a key that lies in the union's span `from` or in a later one; `from` becomes its span.
  int64_t column_of(int64_t key, size_t& from) const;
  const std::vector<Span>& spans() const { return spans_; }

 private:
  std::vector<Span> spans_, merged_;
  std::vector<int64_t> starts_;
  int64_t columns_ = 0;
};

// The cost of a group, in cycles of a 16-lane machine at head_dim 64; only ratios matter.
double group_cost(std::span<const std::vector<Span>> rows, const KeyUnion& keys);

// A row of column ranges; touching ones are joined.
std::vector<ColumnRange> columns_of(const std::vector<Span>& row, const KeyUnion& keys);

// The consecutive members of one residue class; asked for in order, each once.
struct ClassRows {
  int64_t count = 0;
  std::function<std::vector<Span>(int64_t)> row;
};

// Splits them into groups; returns their sizes and adds to cost. As many rows are held as the greatest group has.
std::vector<int64_t> group_sizes(const ClassRows& members, double& cost);

}  // namespace fovea::kernels
