#include "fovea/serve/queue.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fovea::serve {

bool JobQueue::push(const std::shared_ptr<Job>& job) {
  const int64_t tokens = std::accumulate(job->part_tokens.begin(), job->part_tokens.end(), int64_t{0});
  {
    const std::lock_guard lock(mutex_);
    const auto found = lanes_.find(job->model.get());
    if ((found == lanes_.end() ? 0 : found->second.tokens) + tokens > max_tokens_) return false;
    Lane& lane = lanes_[job->model.get()];
    lane.tokens += tokens;
    parts_ += std::ssize(job->part_tokens);
    lane.jobs.push_back(job);
  }
  changed_.notify_one();
  return true;
}

void JobQueue::drop(Lane& lane, Job& job) {
  for (; job.next_part < job.part_tokens.size(); ++job.next_part) {
    lane.tokens -= job.part_tokens[job.next_part];
    --parts_;
  }
}

std::optional<Part> JobQueue::next(const ServedModel* model, const MayStart& may_start) {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(model);
  if (found == lanes_.end()) return std::nullopt;
  Lane& lane = found->second;
  std::erase_if(lane.jobs, [&](const std::shared_ptr<Job>& job) {
    if (job->exchange->is_over()) drop(lane, *job);
    return job->next_part == job->part_tokens.size();
  });
  std::optional<Part> part;
  const auto chosen = std::ranges::find_if(lane.jobs, [&](const auto& job) { return may_start(*job); });
  if (chosen != lane.jobs.end()) {
    const std::shared_ptr<Job> job = *chosen;
    part = Part{job, job->next_part++};
    lane.tokens -= job->part_tokens[part->index];
    --parts_;
    lane.jobs.erase(chosen);
    if (job->next_part < job->part_tokens.size()) lane.jobs.push_back(job);
  }
  if (lane.jobs.empty()) lanes_.erase(found);
  return part;
}

void JobQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_woken_ || !lanes_.empty(); });
  is_woken_ = false;
}

void JobQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  changed_.notify_one();
}

std::vector<std::shared_ptr<ServedModel>> JobQueue::models() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const auto& [model, lane] : lanes_) models.push_back(lane.jobs.front()->model);
  return models;
}

std::vector<std::shared_ptr<const Job>> JobQueue::jobs(const ServedModel* model) const {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(model);
  if (found == lanes_.end()) return {};
  return {found->second.jobs.begin(), found->second.jobs.end()};
}

int64_t JobQueue::tokens() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(lanes_.begin(), lanes_.end(), int64_t{0},
                         [](int64_t sum, const auto& lane) { return sum + lane.second.tokens; });
}

int64_t JobQueue::tokens(const ServedModel* model) const {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(model);
  return found == lanes_.end() ? 0 : found->second.tokens;
}

int64_t JobQueue::parts() const {
  const std::lock_guard lock(mutex_);
  return parts_;
}

double JobQueue::work_before(const ServedModel* model, double work) const {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(model);
  if (found == lanes_.end()) return 0;
  double before = 0;
  for (const std::shared_ptr<Job>& job : found->second.jobs) {
    double left = 0;
    for (size_t part = job->next_part; part < job->part_tokens.size() && left < work; ++part) left += job->work(part);
    before += std::min(left, work);
  }
  return before;
}

}  // namespace fovea::serve
