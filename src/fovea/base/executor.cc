#include "fovea/base/executor.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
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
  std::vector<std::jthread> threads;  // which join, too, where an exception ends this
  const auto workers = static_cast<int>(std::clamp<int64_t>(count, 1, num_threads_));
  try {
    for (int worker = 1; worker < workers; ++worker) threads.emplace_back(body, worker);
  } catch (const std::system_error&) {
    // The system gives no more threads (ulimit -u): the running ones do all of the work.
  }
  body(0);
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fovea
