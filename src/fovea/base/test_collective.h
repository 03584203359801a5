#pragma once
#include <algorithm>
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

namespace fovea {

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

}  // namespace fovea
