// A file system without symbolic links, and with the variable FOVEA_NO_HARD_LINKS without hard links too, to be loaded
// before the program (LD_PRELOAD): the calls that make links fail as they do on exFAT.
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

int refuse() {
  errno = EPERM;
  return -1;
}

}  // namespace

extern "C" {

int symlink(const char* /*target*/, const char* /*path*/) noexcept { return refuse(); }
int symlinkat(const char* /*target*/, int /*folder*/, const char* /*path*/) noexcept { return refuse(); }

int linkat(int folder, const char* path, int new_folder, const char* new_path, int flags) noexcept {
  if (std::getenv("FOVEA_NO_HARD_LINKS") != nullptr) return refuse();
  return static_cast<int>(syscall(SYS_linkat, folder, path, new_folder, new_path, flags));
}
int link(const char* path, const char* new_path) noexcept { return linkat(AT_FDCWD, path, AT_FDCWD, new_path, 0); }

}  // extern "C"
