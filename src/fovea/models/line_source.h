#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fovea::models {

// Lines of a file or stream, read ahead by a thread, in windows. From a pipe or terminal a window ends early when no
// line comes for a while, so that a user or program that feeds lines one by one gets answers; a window of a regular
// file depends on the file alone.
class LineSource {
 public:
  explicit LineSource(const std::string& path);
  ~LineSource();
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;

  // Returns at most `limit` lines, fewer if they are long; none at the end. Throws the exceptions of reading, and
  // Interrupted at a signal (signals.h).
  std::vector<std::string> next(size_t limit);

  // Returns the number of all lines if the end lies within what is read ahead; waits a moment for a regular file.
  std::optional<int64_t> total();

 private:
  // The thread shares this and may outlive the source: nothing wakes a read that waits for a terminal.
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> lines;
    size_t bytes = 0;  // of `lines`
    bool ended = false, abandoned = false;
    std::exception_ptr failure;
  };
  static void read_into(const std::shared_ptr<Queue>& queue, const std::string& path);

  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  bool interactive_;
  int64_t taken_ = 0;  // lines that next() returned
};

}  // namespace fovea::models
