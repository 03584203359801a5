#include "fovea/base/shared_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::shared_work_test {
namespace {

// The time that a message takes on a network that is slower than memory.
struct TestNetwork {
  std::chrono::microseconds latency{0};
  double seconds_per_byte = 0;
};

// A team of threads instead of processes, for tests of work that needs no MPI.
class TestTeam {
 public:
  explicit TestTeam(int size, const TestNetwork& network = {})
      : size_(size), network_(network), barrier_(size), told_(static_cast<size_t>(size)), values_(told_.size()) {}

  // Runs `work` in a thread for each member.
  void run(const std::function<void(Collective& team)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        Member member(*this, rank);
        work(member);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  class Member : public Collective {
   public:
    Member(TestTeam& team, int rank) : team_(team), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return team_.size_; }
    std::string host() const override { return "here"; }
    void sum(std::span<float> values) override {
      team_.values_[static_cast<size_t>(rank_)] = values;
      meet(values.size_bytes());
      std::vector<float> sums(values.size());
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] = team_.values_[0][i];
        for (size_t rank = 1; rank < team_.values_.size(); ++rank) sums[i] += team_.values_[rank][i];
      }
      meet(values.size_bytes());
      std::ranges::copy(sums, values.begin());
    }
    std::vector<std::string> gather(std::string_view bytes) override {
      team_.told_[static_cast<size_t>(rank_)] = bytes;
      meet(bytes.size());
      std::vector<std::string> all = team_.told_;
      meet(0);
      return all;
    }
    void broadcast(std::span<std::byte> bytes) override {
      const std::string first = gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).front();
      std::memcpy(bytes.data(), first.data(), bytes.size());
    }
    void finish() override {}

   private:
    void meet(size_t bytes) {
      if (team_.network_.latency.count() > 0 || team_.network_.seconds_per_byte > 0)
        std::this_thread::sleep_for(
            team_.network_.latency +
            std::chrono::duration<double>(static_cast<double>(bytes) * team_.network_.seconds_per_byte));
      team_.barrier_.arrive_and_wait();
    }
    TestTeam& team_;
    int rank_;
  };

  int size_;
  TestNetwork network_;
  std::barrier<> barrier_;
  std::vector<std::string> told_;
  std::vector<std::span<float>> values_;
};

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
