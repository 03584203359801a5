#include "fovea/base/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

// Starts the program with `theirs` as its standard input and output. Returns an errno.
int spawn(const std::vector<std::string>& command, int theirs, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int error = posix_spawnp(&pid, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

ChildProcess::Sockets ChildProcess::make_sockets() {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return {};
  return {ends[0], ends[1]};
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, std::string_view failure)
    : ChildProcess(command, failure, make_sockets()) {}

ChildProcess::ChildProcess(const std::vector<std::string>& command, std::string_view failure, const Sockets& sockets)
    : ours_(sockets.ours, "open a socket for", command.front()) {
  const Descriptor theirs(sockets.theirs, "open a socket for", command.front());
  const int error = spawn(command, theirs.get(), pid_);
  if (error == 0) return;
  pid_ = -1;
  throw Error(cat(failure, ": cannot run ", command.front(), ": ", std::strerror(error)));
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void ChildProcess::write_line(std::string_view line) {
  const std::string text = cat(line, "\n");
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = send(ours_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (written < 0 && errno != EINTR) return;  // the program has ended
    if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
    throw_if_interrupted("evaluating");
  }
}

bool ChildProcess::read_line(std::string& line) {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return true;
    }
    std::array<char, 4096> bytes;
    const ssize_t got = recv(ours_.get(), bytes.data(), bytes.size(), 0);
    throw_if_interrupted("evaluating");
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    buffer_.append(bytes.data(), static_cast<size_t>(got));
  }
}

}  // namespace fovea
