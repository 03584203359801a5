#include "fovea/kernels/routing/rows_isa.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/element-inl.h"

namespace fovea::kernels {
namespace {

// The numbers of a row as vectors of their sums' type: kStep numbers each, of a row's last vector fewer.
template <class T>
struct Numbers {
  using Wide = float;
  using Vector = F;
  static constexpr int64_t kStep = kLanes;
  static Vector load(const T* p, int64_t rest) { return load_some(p, rest); }
  static void store(T* p, Vector v, int64_t rest) { store_some(p, v, rest); }
  static Vector all(Wide x) { return set(x); }
  static Vector only(Vector v, int64_t rest) { return rest >= kLanes ? v : select(first(rest), v, set(0)); }
  static Wide total(Vector v) { return fovea::kernels::sum(v); }
};
template <>
struct Numbers<double> {
  using Wide = double;
  using Vector = double;
  static constexpr int64_t kStep = 1;
  static double load(const double* p, int64_t) { return *p; }
  static void store(double* p, double v, int64_t) { *p = v; }
  static double all(double x) { return x; }
  static double only(double v, int64_t) { return v; }
  static double total(double v) { return v; }
};

constexpr int64_t kAhead = 8;  // rows lie far apart: those of later members or tokens are asked for early

template <class T>
void prefetch_numbers(const T* row, int64_t width) {
  for (int64_t i = 0; i < width; i += static_cast<int64_t>(64 / sizeof(T))) __builtin_prefetch(row + i);
}

template <class T>
const T* row_at(const TokenRows<T>& x, int64_t row) {
  const auto at = static_cast<int32_t>(row), heads = static_cast<int32_t>(x.heads);
  return x.data + at / heads * x.token_stride + at % heads * x.head_stride;
}

// Places [begin, end) of a row's members.
struct Places {
  const int32_t *begin, *end;
};
Places places_of_row(const RowMembers& members, int64_t row) {
  const int32_t *starts = members.starts.data() + row, *places = members.places.data();
  return {places + starts[0], places + starts[1]};
}
template <class T>
void prefetch_members(const T* y, const RowMembers& members, Places of, int64_t width) {
  const int32_t *from = of.begin + kAhead, *to = of.end + kAhead, *all = members.places.data() + members.places.size();
  for (; from < std::min(to, all); ++from) prefetch_numbers(y + int64_t{*from} * width, width);
}

// The sum of the members' numbers i ... of y [N, D]; `rest` of them exist.
template <class T>
typename Numbers<T>::Vector sum_places(const T* y, Places of, int64_t width, int64_t i) {
  auto sum = Numbers<T>::all(0);
  for (const int32_t* place = of.begin; place < of.end; ++place)
    sum = sum + Numbers<T>::load(y + int64_t{*place} * width + i, width - i);
  return sum;
}
template <class T>
typename Numbers<T>::Vector sum_places(const T* y, const T* z, Places of, int64_t width, int64_t i) {
  auto sum = Numbers<T>::all(0);
  for (const int32_t* place = of.begin; place < of.end; ++place) {
    const int64_t at = int64_t{*place} * width + i;
    sum = sum + (Numbers<T>::load(y + at, width - i) + Numbers<T>::load(z + at, width - i));
  }
  return sum;
}

template <class T>
int64_t padded_to_vectors(int64_t width) {
  return (width + Numbers<T>::kStep - 1) / Numbers<T>::kStep * Numbers<T>::kStep;
}

// Writes the vector of a row, zero up to the padded width, and returns 1 / deviation.
template <class T, class Wide>
Wide normalise_row(const T* x, int64_t width, double eps, Wide* normal) {
  using N = Numbers<T>;
  using W = Numbers<Wide>;
  const auto numbers = static_cast<Wide>(width);
  auto total = N::all(0), squares = N::all(0);
  for (int64_t i = 0; i < width; i += N::kStep) total = total + N::load(x + i, width - i);
  const auto mean = N::all(N::total(total) / numbers);
  for (int64_t i = 0; i < width; i += N::kStep) {
    const auto difference = N::only(N::load(x + i, width - i) - mean, width - i);
    squares = squares + difference * difference;
    W::store(normal + i, difference, N::kStep);
  }
  const Wide rstd = 1 / std::sqrt(N::total(squares) / numbers + static_cast<Wide>(eps));
  for (int64_t i = 0; i < width; i += N::kStep)
    W::store(normal + i, W::load(normal + i, N::kStep) * N::all(rstd), N::kStep);
  return rstd;
}

// Writes the gradients of EntryGradient, a row at a time.
template <class T, class Wide>
class GradientRows {
 public:
  using N = Numbers<T>;
  using W = Numbers<Wide>;
  explicit GradientRows(const EntryGradient<T, Wide>& job)
      : job_(job),
        width_(job.x.width),
        padded_(padded_to_vectors<T>(width_)),
        room_(static_cast<size_t>(2 * padded_)) {}

  void write(int64_t row) {
    const Places of = places_of_row(job_.members, row);
    const int64_t token = row / job_.x.heads, head = row % job_.x.heads;
    const bool reached = of.begin < of.end && job_.first != nullptr;
    const bool counts = job_.distance != 0 && job_.counted[static_cast<size_t>(token)] != 0;
    T* out = job_.out + row * width_;
    if (!reached && !counts) {
      std::fill_n(out, width_, T(0));
      return;
    }
    const Wide* nearest = nullptr;
    if (counts) {
      const int32_t cluster = job_.nearest.nearest[static_cast<size_t>(head * job_.x.tokens + token)];
      nearest = job_.centroids + (head * job_.nearest.clusters + cluster) * width_;
    }
    project(row_at(job_.x, row), of, nearest, out);
  }

 private:
  // `nearest`: the centroid, null where the token does not count for the distance.
  void project(const T* x, Places of, const Wide* nearest, T* out) {
    Wide *normal = room_.data(), *grad = room_.data() + padded_;
    if (job_.first != nullptr) prefetch_members(job_.first, job_.members, of, width_);
    if (job_.second != nullptr) prefetch_members(job_.second, job_.members, of, width_);
    const Wide rstd = normalise_row(x, width_, job_.eps, normal), numbers = static_cast<Wide>(width_);
    auto level = N::all(0), along = N::all(0);
    for (int64_t i = 0; i < width_; i += N::kStep) {
      const auto y = W::load(normal + i, N::kStep);
      auto g = N::all(0);
      if (job_.second != nullptr) {
        g = sum_places(job_.first, job_.second, of, width_, i);
      } else if (job_.first != nullptr) {
        g = sum_places(job_.first, of, width_, i);
      }
      if (nearest != nullptr)
        g = g + N::only(y - W::load(nearest + i, width_ - i), width_ - i) * N::all(static_cast<Wide>(job_.distance));
      level = level + g;
      along = along + g * y;
      W::store(grad + i, g, N::kStep);
    }
    // With y = (x - mean) / deviation, the gradient is dy without its mean and its part along y.
    const auto mean = N::all(N::total(level) / numbers), part = N::all(N::total(along) / numbers);
    for (int64_t i = 0; i < width_; i += N::kStep) {
      const auto y = W::load(normal + i, N::kStep), g = W::load(grad + i, N::kStep);
      N::store(out + i, N::all(rstd) * (g - mean - y * part), width_ - i);
    }
  }

  const EntryGradient<T, Wide>& job_;
  int64_t width_, padded_;
  std::vector<Wide> room_;
};

}  // namespace

template <Isa kIsa>
template <class T>
void RoutedRowLoops<kIsa>::gather(const TokenRows<T>& x, const RowMembers& members, RowSpan part, T* out) {
  using N = Numbers<T>;
  const int64_t width = x.width;
  for (int64_t p = part.first; p < part.last; ++p) {
    const int32_t row = members.rows[static_cast<size_t>(p)];
    if (p + kAhead < part.last) prefetch_numbers(row_at(x, members.rows[static_cast<size_t>(p + kAhead)]), width);
    const T* source = row_at(x, row);
    T* to = out + p * width;
    if (!members.averages) {
      for (int64_t i = 0; i < width; i += N::kStep) N::store(to + i, N::load(source + i, width - i), width - i);
      continue;
    }
    const auto factor = N::all(static_cast<typename N::Wide>(row_factor(members, row)));
    for (int64_t i = 0; i < width; i += N::kStep) N::store(to + i, N::load(source + i, width - i) * factor, width - i);
  }
}

template <Isa kIsa>
template <class T>
void RoutedRowLoops<kIsa>::sum(const T* y, const RowMembers& members, const TokenRows<T>& shape, RowSpan part, T* out) {
  using N = Numbers<T>;
  const int64_t width = shape.width;
  for (int64_t row = part.first; row < part.last; ++row) {
    const Places of = places_of_row(members, row);
    prefetch_members(y, members, of, width);
    const auto factor = N::all(static_cast<typename N::Wide>(row_factor(members, row)));
    for (int64_t i = 0; i < width; i += N::kStep)
      N::store(out + row * width + i, sum_places(y, of, width, i) * factor, width - i);
  }
}

template <Isa kIsa>
template <class T>
void RoutedRowLoops<kIsa>::normalise(const TokenRows<T>& x, double eps, RowSpan part, T* out) {
  using N = Numbers<T>;
  using Wide = typename N::Wide;
  const int64_t width = x.width;
  std::vector<Wide> normal(static_cast<size_t>(padded_to_vectors<T>(width)));
  for (int64_t row = part.first; row < part.last; ++row) {
    if (row + kAhead < part.last) prefetch_numbers(row_at(x, row + kAhead), width);
    normalise_row(row_at(x, row), width, eps, normal.data());
    for (int64_t i = 0; i < width; i += N::kStep)
      N::store(out + row * width + i, Numbers<Wide>::load(normal.data() + i, N::kStep), width - i);
  }
}

template <Isa kIsa>
template <class T, class Wide>
void RoutedRowLoops<kIsa>::gradient(const EntryGradient<T, Wide>& job, RowSpan part) {
  GradientRows<T, Wide> rows(job);
  for (int64_t row = part.first; row < part.last; ++row) rows.write(row);
}

template <Isa kIsa>
template <class T>
void RoutedRowLoops<kIsa>::measure(const ClusterMeasure<T>& job, int64_t head) {
  using N = Numbers<T>;
  const TokenRows<T>& x = job.vectors;
  const int64_t width = x.width;
  double squares = 0;
  for (const TokenRange& range : job.sequences) {
    for (int64_t t = range.begin; t < range.begin + range.length; ++t) {
      if (t + kAhead < x.tokens) prefetch_numbers(row_at(x, (t + kAhead) * x.heads + head), width);
      const T* vector = row_at(x, t * x.heads + head);
      const int64_t at = head * job.nearest.clusters + job.nearest.nearest[static_cast<size_t>(head * x.tokens + t)];
      const T* centroid = job.centroids + at * width;
      double* sums = job.sums.data() + at * width;
      job.counts[static_cast<size_t>(at)] += 1;
      for (int64_t i = 0; i < width; ++i) sums[i] += static_cast<double>(vector[i]);
      auto row = N::all(0);
      for (int64_t i = 0; i < width; i += N::kStep) {
        const auto difference = N::load(vector + i, width - i) - N::load(centroid + i, width - i);
        row = row + difference * difference;
      }
      squares += static_cast<double>(N::total(row));
    }
  }
  job.squares[static_cast<size_t>(head)] = squares;
}

template struct RoutedRowLoops<kThisIsa>;
using Loops = RoutedRowLoops<kThisIsa>;
template void Loops::gather(const TokenRows<float>&, const RowMembers&, RowSpan, float*);
template void Loops::gather(const TokenRows<double>&, const RowMembers&, RowSpan, double*);
template void Loops::gather(const TokenRows<uint16_t>&, const RowMembers&, RowSpan, uint16_t*);
template void Loops::sum(const float*, const RowMembers&, const TokenRows<float>&, RowSpan, float*);
template void Loops::sum(const double*, const RowMembers&, const TokenRows<double>&, RowSpan, double*);
template void Loops::sum(const uint16_t*, const RowMembers&, const TokenRows<uint16_t>&, RowSpan, uint16_t*);
template void Loops::normalise(const TokenRows<float>&, double, RowSpan, float*);
template void Loops::normalise(const TokenRows<double>&, double, RowSpan, double*);
template void Loops::normalise(const TokenRows<uint16_t>&, double, RowSpan, uint16_t*);
template void Loops::gradient(const EntryGradient<float, float>&, RowSpan);
template void Loops::gradient(const EntryGradient<double, double>&, RowSpan);
template void Loops::gradient(const EntryGradient<uint16_t, float>&, RowSpan);
template void Loops::measure(const ClusterMeasure<float>&, int64_t);
template void Loops::measure(const ClusterMeasure<double>&, int64_t);

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
