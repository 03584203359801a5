#include "fovea/base/reader_watch.h"

#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "fovea/base/strings.h"

namespace fovea {
namespace {

struct WatchedFile {
  std::mutex mutex;
  int fd = -1;
  std::string name;
};
WatchedFile& watched_file() {
  static WatchedFile file;
  return file;
}
std::atomic<bool> is_watching{false};
std::atomic<int64_t> next_look{0};  // in milliseconds of the steady clock

int64_t milliseconds_now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// The system tells without being asked for it: POLLERR of a pipe without a reader, POLLHUP of a socket or a terminal.
bool has_no_reader(int fd) {
  pollfd reader = {fd, 0, 0};
  return poll(&reader, 1, 0) > 0 && (reader.revents & (POLLERR | POLLHUP)) != 0;
}

ReaderWatch::ReaderWatch(int fd, std::string name) {
  WatchedFile& file = watched_file();
  const std::scoped_lock lock(file.mutex);
  file.fd = fd;
  file.name = std::move(name);
  is_watching = true;
}

ReaderWatch::~ReaderWatch() { is_watching = false; }

void throw_if_reader_left() {
  constexpr int64_t kPause = 100;
  if (!is_watching.load(std::memory_order_relaxed)) return;
  const int64_t now = milliseconds_now();
  if (now < next_look.load(std::memory_order_relaxed)) return;
  next_look = now + kPause;
  WatchedFile& file = watched_file();
  const std::scoped_lock lock(file.mutex);
  if (is_watching && has_no_reader(file.fd))
    throw ReaderLeft(cat("cannot write ", file.name, ": ", std::strerror(EPIPE)));
}

}  // namespace fovea
