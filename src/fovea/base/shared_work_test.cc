#include "fovea/base/shared_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_collective.h"

namespace fovea::shared_work_test {
namespace {

using namespace std::chrono_literals;

TEST(SharedWork, GivesAllResultsInTheirOrderToAll) {
  for (const int size : {1, 2, 3, 4})
    for (const int64_t count : {0, 1, 2, 3, 7, 8}) {
      std::atomic<int> done = 0;
      TestTeam(size, {.latency = 200us}).run([&](Collective& team) {
        const std::vector<std::string> results = shared_work(team, count, [&](int64_t piece) {
          EXPECT_EQ(piece % team.size(), team.rank());
          ++done;
          return cat("piece ", piece);
        });
        ASSERT_EQ(std::ssize(results), count);
        for (int64_t i = 0; i < count; ++i) EXPECT_EQ(results[static_cast<size_t>(i)], cat("piece ", i));
      });
      EXPECT_EQ(done, count) << "each piece once";
    }
}

// The first process gets the signals; the others must not wait for it.
TEST(SharedWork, ASignalInOneEndsTheWorkOfAllInTheSameRound) {
  std::atomic<int> stopped = 0, done = 0;
  TestTeam(3).run([&](Collective& team) {
    try {
      (void)shared_work(team, 100, [&](int64_t piece) -> std::string {
        if (piece == 3) throw Interrupted("stopped by SIGTERM");
        ++done;
        return "";
      });
    } catch (const Interrupted& signal) {
      ++stopped;
      EXPECT_EQ(std::string(signal.what()) == "stopped by SIGTERM", team.rank() == 0);
    }
  });
  EXPECT_EQ(stopped, 3);
  EXPECT_EQ(done, 3 + 2);
}

}  // namespace
}  // namespace fovea::shared_work_test
