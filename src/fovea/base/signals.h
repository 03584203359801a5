#pragma once
#include <array>
#include <csignal>

namespace fovea {

// SIGINT asks to stop, and so do SIGTERM, SIGHUP and, as batch systems send it before a job's end, SIGUSR1.
inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// These signals only set a flag; long work looks at it between steps and leaves cleanly. A second SIGINT ends the
// process at once, as the shell's user expects. A signal that the parent process ignores stays ignored: SIGINT in a
// shell's background jobs, SIGHUP under nohup.
void install_signal_handlers();
// The signal that asked to stop, 0 if none.
int interrupting_signal();
// Throws Interrupted("... stopped by SIGTERM") if one came.
void throw_if_interrupted(const char* what);
// For tests.
void clear_interrupt();

// While one lives, these signals end the process at once: around a library's call that takes minutes, cannot be
// stopped and leaves nothing behind.
class StoppableAtOnce {
 public:
  StoppableAtOnce();
  ~StoppableAtOnce();
  StoppableAtOnce(const StoppableAtOnce&) = delete;
  StoppableAtOnce& operator=(const StoppableAtOnce&) = delete;

 private:
  std::array<struct sigaction, kStopSignals.size()> before_;
};

}  // namespace fovea
