#include "fovea/base/executor.h"

#include <gtest/gtest.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "fovea/base/error.h"

namespace fovea::executor_test {
namespace {

TEST(Executor, RunsEveryIndexOnceAndPassesExceptionsOn) {
  ThreadExecutor threads(3);
  std::vector<int> calls(1000);
  threads.run(1000, [&](int64_t i, int worker) { calls[i] += worker >= 0 && worker < 3; });
  EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), 1000);
  EXPECT_THROW(threads.run(10,
                           [](int64_t i, int) {
                             if (i == 7) throw Error("seven");
                           }),
               Error);
}

TEST(Executor, StopsAtTheFirstFailure) {
  ThreadExecutor threads(2);
  std::atomic<int> others = 0;
  EXPECT_THROW(threads.run(1000,
                           [&](int64_t i, int) {
                             if (i == 0) throw Error("at once");
                             std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             ++others;
                           }),
               Error);
  EXPECT_LT(others, 999);
}

// Stacks larger than any address space have the effect of `ulimit -u`.
TEST(Executor, DoesWithTheThreadsThatItGets) {
  pthread_attr_t before, greedy;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&greedy), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&greedy, size_t{1} << 60), 0);
  ASSERT_EQ(pthread_setattr_default_np(&greedy), 0);
  std::vector<int> calls(100);
  ThreadExecutor threads(3);
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  threads.run(100, [&](int64_t i, int worker) { calls[i] += worker >= 0 && worker < 3; });
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&greedy), pthread_attr_destroy(&before);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), 100);
}

TEST(Executor, StartsNoMoreThreadsThanThereAreIndices) {
  std::atomic<int> most = 0;
  for (int repeat = 0; repeat < 50; ++repeat) {
    ThreadExecutor(64).run(2, [&](int64_t, int worker) {
      if (worker > most) most = worker;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  EXPECT_LT(most, 2);
}

}  // namespace
}  // namespace fovea::executor_test
