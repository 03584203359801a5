#pragma once
#include <cstdint>
#include <functional>

namespace fovea {

// Runs independent pieces of work; kernels get their threads from here and know no OpenMP.
// Results never depend on num_threads(): a piece writes only what its own indices own.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual int num_threads() const = 0;
  // Calls work(index, worker) once for every index in [0, count), in any order; worker is in
  // [0, num_threads()) and names a scratch space that no other running call uses. Returns when all are done.
  virtual void run(int64_t count, const std::function<void(int64_t index, int worker)>& work) = 0;
};

// In the calling thread.
class SerialExecutor final : public Executor {
 public:
  int num_threads() const override { return 1; }
  void run(int64_t count, const std::function<void(int64_t, int)>& work) override {
    for (int64_t i = 0; i < count; ++i) work(i, 0);
  }
};

// Runs on std::thread, with threads started for each run: for tests and tools without torch.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(int num_threads) : num_threads_(num_threads < 1 ? 1 : num_threads) {}
  int num_threads() const override { return num_threads_; }
  void run(int64_t count, const std::function<void(int64_t, int)>& work) override;

 private:
  int num_threads_;
};

}  // namespace fovea
