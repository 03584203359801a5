#include "fovea/base/signals.h"

#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

// Each in a process of its own, which the signal may end.
namespace fovea::signals_test {
namespace {

constexpr int kGood = 0, kWrong = 1, kTooLate = 2;

void install() {
  std::signal(SIGINT, SIG_DFL);  // a shell's background jobs ignore it
  install_signal_handlers();
}

struct Pipe {
  Pipe() {
    if (pipe(ends.data()) != 0) std::_Exit(kWrong);
  }
  std::array<int, 2> ends = {-1, -1};
  std::string name(size_t end) const { return cat("/dev/fd/", ends.at(end)); }
};

void interrupt_twice() {
  install();
  (void)std::raise(SIGINT);
  if (interrupting_signal() != SIGINT) std::_Exit(kWrong);
  (void)std::raise(SIGINT);
  std::_Exit(kGood);
}

void write_into_a_closed_pipe() {
  install();
  const Pipe pipe;
  close(pipe.ends[0]);
  const std::string message = message_of([&] {
    LineWriter out(pipe.name(1));
    out.line("x");
    out.close();
  });
  std::_Exit(message.find("Broken pipe") != std::string::npos ? kGood : kWrong);
}

// While lines are computed, before the next is written.
void compute_for_a_closed_pipe() {
  install();
  const Pipe pipe;
  LineWriter out(pipe.name(1));
  out.line("x");
  char line = 0;
  if (read(pipe.ends[0], &line, 1) != 1 || line != 'x') std::_Exit(kWrong);  // a reader gets a line when it is there
  throw_if_interrupted("computing");
  close(pipe.ends[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const std::string message = message_of([] { throw_if_interrupted("computing"); });
  std::_Exit(message == cat("cannot write '", pipe.name(1), "': Broken pipe") ? kGood : kWrong);
}

// The signal comes more than once, lest the first come before `action` waits.
void interrupt(const std::function<void()>& action) {
  install();
  const pthread_t waiting = pthread_self();
  const std::thread sender([&] {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      pthread_kill(waiting, SIGTERM);
    }
    std::_Exit(kTooLate);
  });
  try {
    action();
  } catch (const Interrupted&) {
    std::_Exit(kGood);
  }
  std::_Exit(kWrong);
}

TEST(SignalsDeathTest, TheSecondInterruptEndsAtOnce) {
  EXPECT_EXIT(interrupt_twice(), testing::KilledBySignal(SIGINT), "");
}

TEST(SignalsDeathTest, AClosedPipeIsAnError) {
  EXPECT_EXIT(write_into_a_closed_pipe(), testing::ExitedWithCode(kGood), "");
}

TEST(SignalsDeathTest, WorkForAClosedPipeEnds) {
  EXPECT_EXIT(compute_for_a_closed_pipe(), testing::ExitedWithCode(kGood), "");
}

TEST(Signals, WorkForAFileGoesOn) {
  const TestFolder folder;
  LineWriter out(folder / "lines");
  out.line("x");
  EXPECT_NO_THROW(throw_if_interrupted("computing"));
  out.close();
}

// A pipe that nobody writes into, and one that nobody opens at its other end.
TEST(SignalsDeathTest, WaitingEnds) {
  const TestFolder folder;
  const std::string named = folder / "pipe";
  ASSERT_EQ(mkfifo(named.c_str(), 0600), 0);
  const Pipe pipe;
  for (const std::function<void()>& waits : {std::function<void()>([&] { const LineReader lines(pipe.name(0)); }),
                                             {[&] { const LineReader lines(named); }},
                                             {[&] { read_file(named); }},
                                             {[&] { write_file(named, "x"); }},
                                             {[&] { const LineWriter lines(named); }}})
    EXPECT_EXIT(interrupt(waits), testing::ExitedWithCode(kGood), "");
}

// Shells ignore signals for their background jobs, and nohup ignores SIGHUP.
TEST(Signals, ThatWereIgnoredStayIgnored) {
  for (const int signal : kStopSignals) {
    const auto before = std::signal(signal, SIG_IGN);
    install_signal_handlers();
    {
      const StoppableAtOnce stoppable;
      std::raise(signal);
    }
    std::raise(signal);
    EXPECT_EQ(interrupting_signal(), 0);
    std::signal(signal, before);
  }
}

TEST(Signals, AskToStop) {
  for (const auto& [signal, name] : {std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM"),
                                     std::pair(SIGHUP, "SIGHUP"), std::pair(SIGUSR1, "SIGUSR1")}) {
    const auto before = std::signal(signal, SIG_DFL);
    install_signal_handlers();
    std::raise(signal);
    EXPECT_EQ(interrupting_signal(), signal);
    try {
      throw_if_interrupted("work");
      ADD_FAILURE() << name;
    } catch (const Interrupted& e) {
      EXPECT_EQ(std::string(e.what()), cat("work stopped by ", name));
    }
    clear_interrupt();
    std::signal(signal, before);
  }
}

}  // namespace
}  // namespace fovea::signals_test
