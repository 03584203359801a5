#include "fovea/kernels/routing/rows.h"

#include <algorithm>

#include "fovea/kernels/routing/rows_isa.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kRowsATask = 512;

// Calls work(span) for pieces of [0, count).
template <class Work>
void in_pieces(int64_t count, Executor& executor, const Work& work) {
  executor.run((count + kRowsATask - 1) / kRowsATask, [&](int64_t piece, int) {
    work(RowSpan{piece * kRowsATask, std::min(count, (piece + 1) * kRowsATask)});
  });
}

template <class Job>
void run_gradient(const Job& job, Executor& executor) {
  with_isa([&](auto tag) {
    in_pieces(job.x.count(), executor, [&](RowSpan part) { RoutedRowLoops<decltype(tag)::kIsa>::gradient(job, part); });
  });
}

template <class T>
void run_measure(const ClusterMeasure<T>& job, Executor& executor) {
  with_isa([&](auto tag) {
    executor.run(job.vectors.heads,
                 [&](int64_t head, int) { RoutedRowLoops<decltype(tag)::kIsa>::measure(job, head); });
  });
}

template <class T>
void run_norm(const TokenRows<T>& x, double eps, T* out, Executor& executor) {
  with_isa([&](auto tag) {
    in_pieces(x.count(), executor,
              [&](RowSpan part) { RoutedRowLoops<decltype(tag)::kIsa>::normalise(x, eps, part, out); });
  });
}

}  // namespace

double row_factor(const RowMembers& members, int64_t row) {
  if (!members.averages) return 1;
  const auto at = static_cast<size_t>(row);
  return 1 / (static_cast<double>(members.starts[at + 1] - members.starts[at]) + kCountBias);
}

template <class T>
void gather_rows(const TokenRows<T>& x, const RowMembers& members, T* out, Executor& executor) {
  with_isa([&](auto tag) {
    in_pieces(std::ssize(members.rows), executor,
              [&](RowSpan part) { RoutedRowLoops<decltype(tag)::kIsa>::gather(x, members, part, out); });
  });
}

template <class T>
void sum_rows(const T* y, const RowMembers& members, const TokenRows<T>& shape, T* out, Executor& executor) {
  with_isa([&](auto tag) {
    in_pieces(shape.count(), executor,
              [&](RowSpan part) { RoutedRowLoops<decltype(tag)::kIsa>::sum(y, members, shape, part, out); });
  });
}

void normalise_rows(const TokenRows<float>& x, double eps, float* out, Executor& executor) {
  run_norm(x, eps, out, executor);
}
void normalise_rows(const TokenRows<double>& x, double eps, double* out, Executor& executor) {
  run_norm(x, eps, out, executor);
}
void normalise_rows(const TokenRows<uint16_t>& x, double eps, uint16_t* out, Executor& executor) {
  run_norm(x, eps, out, executor);
}
void write_gradient(const EntryGradient<float, float>& job, Executor& executor) { run_gradient(job, executor); }
void write_gradient(const EntryGradient<double, double>& job, Executor& executor) { run_gradient(job, executor); }
void write_gradient(const EntryGradient<uint16_t, float>& job, Executor& executor) { run_gradient(job, executor); }
void measure_clusters(const ClusterMeasure<float>& job, Executor& executor) { run_measure(job, executor); }
void measure_clusters(const ClusterMeasure<double>& job, Executor& executor) { run_measure(job, executor); }

template void gather_rows(const TokenRows<float>&, const RowMembers&, float*, Executor&);
template void gather_rows(const TokenRows<double>&, const RowMembers&, double*, Executor&);
template void gather_rows(const TokenRows<uint16_t>&, const RowMembers&, uint16_t*, Executor&);
template void sum_rows(const float*, const RowMembers&, const TokenRows<float>&, float*, Executor&);
template void sum_rows(const double*, const RowMembers&, const TokenRows<double>&, double*, Executor&);
template void sum_rows(const uint16_t*, const RowMembers&, const TokenRows<uint16_t>&, uint16_t*, Executor&);

}  // namespace fovea::kernels
