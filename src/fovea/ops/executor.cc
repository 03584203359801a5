#include "fovea/ops/executor.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

namespace fovea::ops {
namespace {

class TorchExecutor final : public Executor {
 public:
  int num_threads() const override { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

  void run(int64_t count, const std::function<void(int64_t, int)>& work) override {
    const int64_t workers = std::min<int64_t>(count, num_threads());
    if (workers <= 1) {
      for (int64_t i = 0; i < count; ++i) work(i, 0);
      return;
    }
    // Threads take the next index as they come free: pieces differ in cost, and so do the cores of a busy machine.
    std::atomic<int64_t> next{0};
    at::parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) {
        for (int64_t i = next++; i < count; i = next++) work(i, static_cast<int>(worker));
      }
    });
  }
};

}  // namespace

Executor& torch_executor() {
  static TorchExecutor executor;
  return executor;
}

}  // namespace fovea::ops
