#include "fovea/base/threads.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {

int64_t startable_threads(int64_t wanted) {
  std::mutex mutex;
  std::condition_variable ended;
  bool may_end = false;
  std::vector<std::thread> threads;
  try {
    threads.reserve(static_cast<size_t>(std::max<int64_t>(wanted, 0)));
    while (std::ssize(threads) < wanted) {
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        ended.wait(lock, [&] { return may_end; });
      });
    }
  } catch (const std::system_error&) {
    // The limit is reached: the number of running threads is the answer.
  }
  {
    const std::scoped_lock lock(mutex);
    may_end = true;
  }
  ended.notify_all();
  for (std::thread& thread : threads) thread.join();
  return std::ssize(threads);
}

void require_threads(std::string_view option, int64_t threads) {
  const int64_t most = 1 + startable_threads(threads - 1);
  if (most >= threads) return;
  throw Error(cat(option, ": got ", threads, ", but the system lets this process have ", most,
                  " threads; expected at most that; see ulimit -u and the limits of the container"));
}

}  // namespace fovea
