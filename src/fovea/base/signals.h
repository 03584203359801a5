#pragma once
#include <csignal>

namespace fovea {

// SIGINT and SIGTERM only set a flag; long work looks at it between steps and leaves cleanly. A second SIGINT ends
// the process at once, as the shell's user expects.
void install_signal_handlers();
// Which signal asked, 0 if none.
int interrupting_signal();
// Throws Interrupted("... stopped by SIGTERM") if one came.
void throw_if_interrupted(const char* what);
// For tests.
void clear_interrupt();

// While one lives, SIGINT and SIGTERM end the process at once: around a library's call that takes minutes, cannot be
// stopped and leaves nothing behind.
class StoppableAtOnce {
 public:
  StoppableAtOnce();
  ~StoppableAtOnce();
  StoppableAtOnce(const StoppableAtOnce&) = delete;
  StoppableAtOnce& operator=(const StoppableAtOnce&) = delete;

 private:
  struct sigaction interrupt_, terminate_;
};

}  // namespace fovea
