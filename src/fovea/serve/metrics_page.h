#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

// The values of the page /metrics, in Prometheus' text format.
namespace fovea::serve {

inline constexpr std::array kSecondsBounds = {0.005, 0.01, 0.025, 0.05, 0.1,  0.25, 0.5,
                                              1.0,   2.5,  5.0,   10.0, 30.0, 60.0};

class Metrics {
 public:
  // Counts a request that is over; status 0 if its client left.
  void count_request(std::string_view dialect, int status, double seconds);

  // Written by the thread of the engine, read by any.
  std::atomic<int64_t> source_tokens = 0, target_tokens = 0, sentences = 0;  // since the start
  std::atomic<int64_t> rows = 0, running = 0;                                // now
  std::atomic<int64_t> unknown_tokens = 0;                                   // of texts that were read
  std::atomic<int64_t> steps = 0, reloads = 0, failed_reloads = 0;

  // `waiting` are the parts and tokens in the queue.
  std::string page(int64_t waiting_parts, int64_t waiting_tokens, bool is_ready) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  std::array<int64_t, kSecondsBounds.size() + 1> in_seconds_ = {};
  double all_seconds_ = 0;
  int64_t cancelled_ = 0;
};

int64_t resident_bytes();  // memory of this process, 0 if the system does not say

}  // namespace fovea::serve
