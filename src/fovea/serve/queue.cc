#include "fovea/serve/queue.h"

#include <numeric>
#include <utility>

namespace fovea::serve {

bool JobQueue::push(const std::shared_ptr<Job>& job) {
  const int64_t tokens = std::accumulate(job->part_tokens.begin(), job->part_tokens.end(), int64_t{0});
  {
    const std::lock_guard lock(mutex_);
    if (tokens_ + tokens > max_tokens_) return false;
    tokens_ += tokens;
    parts_ += std::ssize(job->part_tokens);
    jobs_.push_back(job);
  }
  changed_.notify_one();
  return true;
}

void JobQueue::drop(Job& job) {
  for (; job.next_part < job.part_tokens.size(); ++job.next_part) {
    tokens_ -= job.part_tokens[job.next_part];
    --parts_;
  }
}

std::optional<Part> JobQueue::next() {
  const std::lock_guard lock(mutex_);
  while (!jobs_.empty()) {
    std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job->exchange->is_over()) drop(*job);
    if (job->next_part == job->part_tokens.size()) continue;
    const size_t index = job->next_part++;
    tokens_ -= job->part_tokens[index];
    --parts_;
    if (job->next_part < job->part_tokens.size()) jobs_.push_back(job);
    return Part{std::move(job), index};
  }
  return std::nullopt;
}

void JobQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_woken_ || !jobs_.empty(); });
  is_woken_ = false;
}

void JobQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  changed_.notify_one();
}

int64_t JobQueue::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

int64_t JobQueue::parts() const {
  const std::lock_guard lock(mutex_);
  return parts_;
}

}  // namespace fovea::serve
