#include "fovea/base/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "fovea/base/error.h"

namespace fovea {
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

}  // namespace
}  // namespace fovea
