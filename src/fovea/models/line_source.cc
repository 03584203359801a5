#include "fovea/models/line_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/models/batches.h"

namespace fovea::models {
namespace {

using namespace std::chrono_literals;

constexpr size_t kReadAhead = 16 << 20;  // bytes
// After such a pause without a line, the writer is taken to wait for its answer. A writer that is slower than that
// loses nothing: lines that come while others are translated make up the next window.
constexpr auto kPause = 10ms;
constexpr auto kSignalCheck = 100ms;
constexpr auto kReadingOfFile = 500ms;

bool is_regular(const std::string& path) {
  struct stat status = {};
  const int failed = path == "-" ? fstat(STDIN_FILENO, &status) : stat(path.c_str(), &status);
  return failed == 0 && S_ISREG(status.st_mode);
}

}  // namespace

LineSource::LineSource(const std::string& path) : interactive_(!is_regular(path)) {
  if (path != "-") require_file(path, "--input");
  std::thread([queue = queue_, path] { read_into(queue, path); }).detach();
}

LineSource::~LineSource() {
  const std::scoped_lock lock(queue_->mutex);
  queue_->abandoned = true;
  queue_->changed.notify_all();
}

void LineSource::read_into(const std::shared_ptr<Queue>& queue, const std::string& path) {
  std::exception_ptr failure;
  try {
    LineReader reader(path);
    std::string line;
    while (reader.next(line)) {
      std::unique_lock lock(queue->mutex);
      queue->changed.wait(lock, [&] { return queue->bytes < kReadAhead || queue->abandoned; });
      if (queue->abandoned) return;
      queue->bytes += bytes_of(line);
      queue->lines.push_back(std::move(line));
      queue->changed.notify_all();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const std::scoped_lock lock(queue->mutex);
  queue->failure = failure;
  queue->ended = true;
  queue->changed.notify_all();
}

std::vector<std::string> LineSource::next(size_t limit) {
  std::vector<std::string> window;
  size_t bytes = 0;
  const auto is_full = [&] { return window.size() >= limit || bytes >= kWindowBytes; };
  std::unique_lock lock(queue_->mutex);
  while (!is_full()) {
    const auto available = [&] { return !queue_->lines.empty() || queue_->ended; };
    if (!queue_->changed.wait_for(lock, interactive_ && !window.empty() ? kPause : kSignalCheck, available)) {
      throw_if_interrupted("translating");
      if (interactive_ && !window.empty()) break;
      continue;
    }
    if (queue_->lines.empty()) break;
    while (!queue_->lines.empty() && !is_full()) {
      window.push_back(std::move(queue_->lines.front()));
      queue_->lines.pop_front();
      bytes += bytes_of(window.back());
      queue_->bytes -= bytes_of(window.back());
    }
    queue_->changed.notify_all();
  }
  taken_ += std::ssize(window);
  if (!window.empty()) return window;
  // Ctrl-C ends the writer of a pipe too: the end that this makes is not the text's.
  throw_if_interrupted("translating");
  // The lines before a failure have been translated by now.
  if (queue_->failure) std::rethrow_exception(std::exchange(queue_->failure, nullptr));
  return {};
}

std::optional<int64_t> LineSource::total() {
  std::unique_lock lock(queue_->mutex);
  const auto is_known = [&] { return queue_->ended || queue_->bytes >= kReadAhead; };
  if (!interactive_) queue_->changed.wait_for(lock, kReadingOfFile, is_known);
  if (!queue_->ended || queue_->failure) return std::nullopt;
  return taken_ + std::ssize(queue_->lines);
}

}  // namespace fovea::models
