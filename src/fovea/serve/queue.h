#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/serve/engine.h"
#include "fovea/serve/http.h"
#include "fovea/serve/served_model.h"

// The requests that wait for the engines.
namespace fovea::serve {

// Why a job has no result.
struct JobFailure {
  int status = 500;
  std::string message;
};

// A request's work for a model, in parts such as the sentences of its texts.
struct Job {
  Job(std::shared_ptr<Exchange> from, std::shared_ptr<ServedModel> with)
      : exchange(std::move(from)), model(std::move(with)) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  virtual PartInput input(size_t part) = 0;                // in the thread of the engines, once
  virtual void take(size_t part, PartOutput& output) = 0;  // in the worker's thread
  virtual void fail(const JobFailure& failure) = 0;        // in the worker's thread, at most once
  // The tokens of work of a part, as the model's Pace counts them, and the steps of the longest part, if they are
  // known.
  virtual double work(size_t part) const { return static_cast<double>(part_tokens[part]); }
  virtual double least_steps() const { return 0; }

  // The tokens that a step reads of a part, at most.
  int64_t tokens_at_once(size_t part) const { return std::min(longest_piece, part_tokens[part]); }

  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<ServedModel> model;
  std::vector<int64_t> part_tokens;                             // source tokens of each part
  int64_t part_rows = 1;                                        // rows of a step that a part takes
  int64_t longest_piece = std::numeric_limits<int64_t>::max();  // source tokens that a step reads of a part, at most
  bool answers_in_parts = false;                                // the client gets parts of the answer before its end
  size_t next_part = 0;                                         // the parts before it have left the queue

  // For the thread of the engines alone.
  int64_t running_rows = 0, running_tokens = 0;
  bool has_failed = false;
};

struct Part {
  std::shared_ptr<Job> job;
  size_t index = 0;
};

// A queue for each model, bounded in tokens. The jobs of a model take turns part by part, so a list of a thousand texts
// does not hold back a sentence.
class JobQueue {
 public:
  explicit JobQueue(int64_t max_tokens) : max_tokens_(max_tokens) {}

  // Returns false, and takes nothing, if the job's tokens have no room beside the waiting ones of its model.
  bool push(const std::shared_ptr<Job>& job);
  // Returns the next part of a model among the jobs whose next part `may_start` accepts; none if there is none. Jobs
  // for whose answer nobody waits are dropped.
  using MayStart = std::function<bool(const Job& job)>;
  std::optional<Part> next(const ServedModel* model, const MayStart& may_start);
  // Waits until there is a job, or wake() was called since the last wait.
  void wait();
  void wake();

  std::vector<std::shared_ptr<ServedModel>> models() const;                      // for which jobs wait
  std::vector<std::shared_ptr<const Job>> jobs(const ServedModel* model) const;  // that wait
  int64_t tokens() const;                                                        // that wait
  int64_t tokens(const ServedModel* model) const;
  int64_t parts() const;
  int64_t max_tokens() const { return max_tokens_; }
  // Returns the work that comes before the end of a job of `work`: as jobs take turns, each waiting one does at most as
  // much as the job itself.
  double work_before(const ServedModel* model, double work) const;

 private:
  struct Lane {
    std::deque<std::shared_ptr<Job>> jobs;
    int64_t tokens = 0;
  };
  void drop(Lane& lane, Job& job);

  const int64_t max_tokens_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const ServedModel*, Lane> lanes_;  // of models with jobs
  int64_t parts_ = 0;
  bool is_woken_ = false;
};

}  // namespace fovea::serve
