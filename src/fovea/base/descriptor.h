#pragma once
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

namespace fovea {

// Throws an Error "cannot write 'x': No space left on device; ...". `error` is an errno.
[[noreturn]] void fail_on_file(std::string_view doing, const std::filesystem::path& path, int error);

// Like open(2) and fsync(2), but a signal does not make them fail: the handlers (signals.h) let system calls return,
// and data written when a signal came must be kept. Not for named pipes, which would then wait for ever.
int open_at_last(const std::filesystem::path& path, int flags);
int sync_at_last(int fd);

// Opens for reading; waits for a named pipe's writer, until a signal asks to stop. -1: errno says why.
int open_input(const std::filesystem::path& path);

// An open file, closed at the end of its life.
class Descriptor {
 public:
  // Throws, as above, where `opened` is -1; `shown` is the name that the user knows.
  Descriptor(int opened, std::string_view doing, const std::filesystem::path& shown) : fd_(opened) {
    if (fd_ < 0) fail_on_file(doing, shown, errno);
  }
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// `path` names the file in errors.
void write_all(int fd, std::string_view content, const std::filesystem::path& path);

// fsync; `path` names the file in errors.
void sync_file(const Descriptor& file, const std::filesystem::path& path);

}  // namespace fovea
