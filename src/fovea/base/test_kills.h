#pragma once
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>

namespace fovea {

enum class Exchange : uint8_t { kAsTheSystemDoes, kRefused };  // of two names, as some file systems refuse it
enum class Killed : uint8_t { kYes, kEndedBefore, kCannotTrace };

// Runs `action` in a process of its own, which is killed before its system call number `call`, from 0.
inline Killed kill_at_call(int64_t call, Exchange exchange, const std::function<void()>& action) {
  constexpr int kRefusedToTrace = 3, kCallStop = SIGTRAP | 0x80;
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kRefusedToTrace);
    (void)raise(SIGSTOP);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return Killed::kCannotTrace;
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  bool is_entry = false;
  for (int64_t done = 0;;) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) return Killed::kEndedBefore;
    if (WSTOPSIG(status) != kCallStop) continue;
    is_entry = !is_entry;
    if (!is_entry) continue;
    user_regs_struct registers = {};
    ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    if (exchange == Exchange::kRefused && registers.orig_rax == SYS_renameat2) {
      registers.orig_rax = static_cast<unsigned long long>(-1);  // no system call: the process gets ENOSYS
      ptrace(PTRACE_SETREGS, child, nullptr, &registers);
    }
    if (done++ < call) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return Killed::kYes;
  }
}

}  // namespace fovea
