#include "fovea/base/signals.h"

#include <atomic>
#include <csignal>
#include <cstring>

#include "fovea/base/error.h"
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

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = 0;  // a blocked read returns, so that a program waiting for input stops too
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe (`fovea translate | head`) becomes a write error that is reported.
  std::signal(SIGPIPE, SIG_IGN);
  // So does a file that ulimit -f lets grow no more.
  std::signal(SIGXFSZ, SIG_IGN);
}

int interrupting_signal() { return caught.load(); }

void throw_if_interrupted(const char* what) {
  if (caught.load(std::memory_order_relaxed) == 0) return;
  throw Interrupted(cat(what, " stopped by ", caught == SIGINT ? "SIGINT" : "SIGTERM"));
}

void clear_interrupt() { caught = 0; }

StoppableAtOnce::StoppableAtOnce() : interrupt_(), terminate_() {
  struct sigaction ends = {};
  ends.sa_handler = SIG_DFL;
  sigemptyset(&ends.sa_mask);
  sigaction(SIGINT, &ends, &interrupt_);
  sigaction(SIGTERM, &ends, &terminate_);
}

StoppableAtOnce::~StoppableAtOnce() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

}  // namespace fovea
