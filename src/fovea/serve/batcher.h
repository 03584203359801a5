#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/serve/metrics_page.h"
#include "fovea/serve/queue.h"
#include "fovea/serve/served_model.h"

namespace fovea::serve {

// A thread that does one piece of work after the other, in their order. The pieces may not throw.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() { finish(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns when all work that was given before is done; later work is dropped.
  void finish() {
    if (!thread_.joinable()) return;
    add(nullptr);
    thread_.join();
  }

  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (!work) return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::thread thread_;
};

// Why a job has no result.
struct JobFailure {
  int status = 500;
  std::string message;
};

// A job for one model.
struct ModelJob : Job {
  using Job::Job;
  std::shared_ptr<ServedModel> model;
  // Called in the worker's thread, at most once. What it needs of the job it takes as an argument, so that the job does
  // not keep itself alive.
  std::function<void(ModelJob& job, const JobFailure& failure)> fail;
  bool has_failed = false;  // of the engine's thread
};

// Sentences to translate.
struct TranslationJob : ModelJob {
  using ModelJob::ModelJob;
  std::vector<translation::EngineRequest> requests;  // one for each part
  bool wants_attention = false;
  std::vector<translation::EngineResult> results;
  std::vector<AttentionMap> attention;            // if they were wanted
  size_t left = 0;                                // parts without a result
  std::function<void(TranslationJob& job)> done;  // called in the worker's thread when all parts have their results
};

// Texts to continue.
struct CompletionJob : ModelJob {
  using ModelJob::ModelJob;
  std::vector<language::CompletionRequest> requests;
  // Called in the worker's thread.
  std::function<void(CompletionJob& job, size_t index, const language::CompletionPart& part)> take;
};

// The thread of the engines: takes parts from the queue between steps, steps every model that has work, and hands
// results to the worker.
class Batcher {
 public:
  Batcher(const ServeOptions& options, Models& models, JobQueue& queue, Metrics& metrics, Worker& worker)
      : options_(options), models_(models), queue_(queue), metrics_(metrics), worker_(worker) {}

  // Loads the models and works until stop(). Throws an Error if a model cannot be loaded at the start.
  void run();
  // From any thread.
  void stop();
  void reload();  // loads the models again between two steps; if that fails, the old ones stay

  double speed() const { return speed_; }  // source tokens per second of work; 0 before the first sentence

 private:
  using Ticket = models::Ticket;
  struct Running {
    std::shared_ptr<ServedModel> model;
    std::map<Ticket, Part> parts;
  };

  ModelList load() const;
  void load_again();
  void drop_left();
  void admit();
  void add(const Part& part);
  bool step();
  bool step_model(Running& running);
  void take_translations(Running& running);
  void take_completions(Running& running);
  void fail(const Part& part, const JobFailure& failure);
  Running& running_of(const std::shared_ptr<ServedModel>& model);
  void forget_old_models();
  void count();

  const ServeOptions& options_;
  Models& models_;
  JobQueue& queue_;
  Metrics& metrics_;
  Worker& worker_;
  std::vector<std::unique_ptr<Running>> running_;
  std::atomic<bool> stops_ = false, reloads_ = false;
  std::atomic<double> speed_ = 0;
  double seconds_ = 0;  // of work
};

}  // namespace fovea::serve
