#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/base/stopwatch.h"
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

// The most that a model computes in a step for all requests together. A request has a share of it.
struct Budget {
  int64_t rows = 0, tokens = 0;
};
Budget budget_of(const ServedModel& model, const ServeOptions& options);

// Whether the next part of a job may start beside the running parts of its model. Within the budget, any part may. A
// request without a running part gets one at once, whatever the others hold, up to twice the budget's rows; so no
// request waits for the end of another one's. Below its share of the rows and tokens, a request may take more up to
// half as many again.
struct Load {
  EngineCounts counts;   // of the engine
  int64_t rows = 0;      // that its parts hold
  int64_t requests = 1;  // that hold rows or wait
};
bool may_start(const Job& job, const Load& load, const Budget& budget);

// The thread of the engines: lets parts join between steps, steps the model that has had the least time, and hands
// results to the worker.
class Batcher {
 public:
  using Loader = std::function<std::unique_ptr<Engine>(const ModelPlace& place)>;
  // The objects that the batcher works with; they live longer. `now` is a clock in seconds.
  struct Room {
    Models& models;
    JobQueue& queue;
    Metrics& metrics;
    Worker& worker;
    std::function<double()> now = [clock = Stopwatch()] { return clock.seconds(); };
  };
  Batcher(const ServeOptions& options, Loader loader, Room room)
      : options_(options), loader_(std::move(loader)), room_(std::move(room)) {}

  // Loads the models and works until stop(). Throws an Error if a model cannot be loaded at the start.
  void run();
  // One round of run(): frees what nobody waits for, lets parts join, and steps one model. Returns false if there was
  // nothing to do.
  bool turn();
  // From any thread.
  void stop();
  void reload();  // loads the models again between two steps; if that fails, the old ones stay

 private:
  struct RunningPart {
    Part part;
    int64_t made = 0;  // new tokens so far
  };
  struct Running {
    std::shared_ptr<ServedModel> model;
    std::map<Ticket, RunningPart> parts = {};
    int64_t rows = 0;  // that the parts hold
    double used = 0;   // seconds of its steps
    double since = 0;  // the time of the end of the last step, or since when there is work
  };

  ModelList load() const;
  void load_again();
  void drop_left();
  void admit();
  Load load_of(const Running& running) const;
  void add(Running& running, const Part& part);
  void begin_work(Running& running) const;
  std::map<Ticket, RunningPart>::iterator release(Running& running, std::map<Ticket, RunningPart>::iterator place);
  bool step();
  bool step_model(Running& running);
  double take(Running& running);
  double count(Running& running, RunningPart& from, const PartOutput& output);
  void fail_all(Running& running, const std::string& what);
  void fail(const Part& part, const JobFailure& failure);
  Running& running_of(const std::shared_ptr<ServedModel>& model);
  void forget_old_models();
  void count_rows();

  const ServeOptions& options_;
  const Loader loader_;
  const Room room_;
  std::vector<std::unique_ptr<Running>> running_;
  std::atomic<bool> stops_ = false, reloads_ = false;
};

}  // namespace fovea::serve
