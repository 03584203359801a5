#pragma once
#include "fovea/kernels/routing/rows.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// The passes of rows.h at one instruction-set level, over members, rows or tokens [first, last).
struct RowSpan {
  int64_t first = 0, last = 0;
};

template <Isa kIsa>
struct RoutedRowLoops {
  template <class T>
  static void gather(const TokenRows<T>& x, const RowMembers& members, RowSpan part, T* out);
  template <class T>
  static void sum(const T* y, const RowMembers& members, const TokenRows<T>& shape, RowSpan part, T* out);
  template <class T>
  static void normalise(const TokenRows<T>& x, double eps, RowSpan part, T* out);
  template <class T, class Wide>
  static void gradient(const EntryGradient<T, Wide>& job, RowSpan part);
  // All tokens of one head.
  template <class T>
  static void measure(const ClusterMeasure<T>& job, int64_t head);
};

}  // namespace fovea::kernels
