#include "fovea/base/executor.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fovea {

void ThreadExecutor::run(int64_t count, const std::function<void(int64_t, int)>& work) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  auto body = [&](int worker) {
    try {
      for (int64_t i = next++; i < count; i = next++) work(i, worker);
    } catch (...) {
      const std::scoped_lock lock(failure_mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  for (int worker = 1; worker < num_threads_; ++worker) threads.emplace_back(body, worker);
  body(0);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fovea
