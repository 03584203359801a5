#include "fovea/base/signals.h"

#include <atomic>
#include <csignal>
#include <cstring>

#include "fovea/base/error.h"
#include "fovea/base/reader_watch.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free, "the handler may touch lock-free atomics only");

void remember(int signal) {
  if (caught.exchange(signal) == SIGINT && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

// Returns what was set before. Without SA_RESTART: a blocked read returns, so that a program waiting for input stops
// too.
struct sigaction set_unless_ignored(int signal, void (*handler)(int)) {
  struct sigaction before = {}, action = {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return before;
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  return before;
}

}  // namespace

void install_signal_handlers() {
  for (const int signal : kStopSignals) set_unless_ignored(signal, remember);
  // A closed pipe (`fovea translate | head`) becomes a write error that is reported (reader_watch.h).
  std::signal(SIGPIPE, SIG_IGN);
  // Writing to a file that ulimit -f does not let grow then fails in the same way.
  std::signal(SIGXFSZ, SIG_IGN);
}

int interrupting_signal() { return caught.load(); }

void throw_if_interrupted(const char* what) {
  throw_if_reader_left();
  if (caught.load(std::memory_order_relaxed) == 0) return;
  throw Interrupted(cat(what, " stopped by SIG", sigabbrev_np(caught)));
}

void clear_interrupt() { caught = 0; }

StoppableAtOnce::StoppableAtOnce() : before_() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) before_[i] = set_unless_ignored(kStopSignals[i], SIG_DFL);
}

StoppableAtOnce::~StoppableAtOnce() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &before_[i], nullptr);
}

}  // namespace fovea
