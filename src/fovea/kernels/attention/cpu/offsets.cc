#include "fovea/kernels/attention/cpu/offsets.h"

#include <utility>

namespace fovea::kernels {
namespace {

int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

SharedTerms::SharedTerms(const AttentionProblem& problem, const OffsetGradients& to, std::vector<Task> tasks,
                         int64_t padded)
    : problem_(problem), to_(to), tasks_(std::move(tasks)), padded_(padded) {
  if (to.by_head == nullptr && to.rows == nullptr) return;
  int64_t floats = 0;
  for (const Task& task : tasks_) {
    begin_.push_back(floats);
    if (to.by_head != nullptr) {
      floats += whole_lines(met_by(problem.offsets.by_head, problem, *task.sequence).count);
    }
    if (to.rows != nullptr) floats += met_by(problem.offsets.product, problem, *task.sequence).count * padded;
  }
  sums_ = aligned<float>(floats);
}

SharedTermSums SharedTerms::of(int64_t task) const {
  SharedTermSums sums;
  if (begin_.empty()) return sums;
  float* at = sums_.get() + begin_[static_cast<size_t>(task)];
  const Sequence& sequence = *tasks_[static_cast<size_t>(task)].sequence;
  if (to_.by_head != nullptr) {
    sums.by_head = at;
    sums.by_head_range = met_by(problem_.offsets.by_head, problem_, sequence);
    at += whole_lines(sums.by_head_range.count);
  }
  if (to_.rows != nullptr) {
    sums.rows = at;
    sums.rows_range = met_by(problem_.offsets.product, problem_, sequence);
  }
  return sums;
}

void SharedTerms::add_up(Executor& executor) const {
  if (to_.by_head == nullptr && to_.rows == nullptr) return;
  executor.run(problem_.num_heads, [&](int64_t head, int) { add_up_head(head); });
}

void SharedTerms::add_up_head(int64_t head) const {
  const OffsetRanges& has = problem_.offsets;
  const int64_t width = problem_.head_dim;
  std::vector<double> by_head(to_.by_head == nullptr ? 0 : static_cast<size_t>(has.by_head.count));
  std::vector<double> rows(to_.rows == nullptr ? 0 : static_cast<size_t>(has.product.count * width));
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].head != head) continue;
    const SharedTermSums sums = of(static_cast<int64_t>(i));
    for (int64_t o = 0; sums.by_head != nullptr && o < sums.by_head_range.count; ++o) {
      by_head[static_cast<size_t>(sums.by_head_range.first - has.by_head.first + o)] += sums.by_head[o];
    }
    for (int64_t o = 0; sums.rows != nullptr && o < sums.rows_range.count; ++o) {
      double* to = rows.data() + (sums.rows_range.first - has.product.first + o) * width;
      for (int64_t j = 0; j < width; ++j) to[j] += sums.rows[o * padded_ + j];
    }
  }
  for (size_t o = 0; o < by_head.size(); ++o) {
    to_.by_head[head * has.by_head.count + static_cast<int64_t>(o)] = static_cast<float>(by_head[o]);
  }
  for (int64_t at = 0; at < std::ssize(rows); ++at) {
    const int64_t o = at / width, j = at % width;
    to_.rows[(o * problem_.num_heads + head) * width + j] = static_cast<float>(rows[static_cast<size_t>(at)]);
  }
}

}  // namespace fovea::kernels
