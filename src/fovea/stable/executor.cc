#include "fovea/stable/executor.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace fovea::stable {
namespace {

class TorchExecutor final : public Executor {
 public:
  int num_threads() const override {
    return in_parallel_ ? 1 : static_cast<int>(std::max(torch::stable::get_num_threads(), 1U));
  }

  void run(int64_t count, const std::function<void(int64_t, int)>& work) override {
    const int64_t workers = std::min<int64_t>(count, num_threads());
    if (workers <= 1) {
      for (int64_t i = 0; i < count; ++i) work(i, 0);
      return;
    }
    // Threads take the next index as they come free: pieces differ in cost, and so do the cores of a busy machine.
    std::atomic<int64_t> next{0};
    torch::stable::parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
      const Inside inside;
      for (int64_t worker = begin; worker < end; ++worker) {
        for (int64_t i = next++; i < count; i = next++) work(i, static_cast<int>(worker));
      }
    });
  }

 private:
  // A call within a parallel region runs on the calling thread.
  struct Inside {
    Inside() : before(std::exchange(in_parallel_, true)) {}
    ~Inside() { in_parallel_ = before; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    bool before;
  };
  static thread_local bool in_parallel_;
};

thread_local bool TorchExecutor::in_parallel_ = false;

}  // namespace

Executor& torch_executor() {
  static TorchExecutor executor;
  return executor;
}

Executor& executor_for(int64_t numbers) {
  constexpr int64_t kWorthThreads = 1 << 15;
  static SerialExecutor alone;
  return numbers < kWorthThreads ? static_cast<Executor&>(alone) : torch_executor();
}

}  // namespace fovea::stable
