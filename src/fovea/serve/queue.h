#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "fovea/serve/http.h"

// The requests that wait for the engine.
namespace fovea::serve {

// A request's work in parts, such as the sentences of its texts.
struct Job {
  explicit Job(std::shared_ptr<Exchange> from) : exchange(std::move(from)) {}
  virtual ~Job() = default;

  std::shared_ptr<Exchange> exchange;
  std::vector<int64_t> part_tokens;  // source tokens of each part
  size_t next_part = 0;              // the parts before it have left the queue
};

struct Part {
  std::shared_ptr<Job> job;
  size_t index = 0;
};

// A queue bounded in tokens. Jobs take turns part by part, so a list of a thousand texts does not hold back a sentence.
class JobQueue {
 public:
  explicit JobQueue(int64_t max_tokens) : max_tokens_(max_tokens) {}

  // Returns false, and takes nothing, if the job's tokens have no room beside the waiting ones.
  bool push(const std::shared_ptr<Job>& job);
  // The next part; nothing if none waits. Jobs for whose answer nobody waits are dropped.
  std::optional<Part> next();
  // Waits until there is a job, or wake() was called since the last wait.
  void wait();
  void wake();

  int64_t tokens() const;  // that wait
  int64_t parts() const;
  int64_t max_tokens() const { return max_tokens_; }

 private:
  void drop(Job& job);

  const int64_t max_tokens_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  int64_t tokens_ = 0, parts_ = 0;
  bool is_woken_ = false;
};

}  // namespace fovea::serve
