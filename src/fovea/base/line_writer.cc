#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>

#include "fovea/base/aside.h"
#include "fovea/base/descriptor.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/output_target.h"
#include "fovea/base/reader_watch.h"
#include "fovea/base/replace.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace io = boost::iostreams;
namespace fs = std::filesystem;
namespace {

std::string output_name(const std::string& path) { return path == "-" ? "standard output" : cat("'", path, "'"); }

class CheckedSink {
 public:
  using char_type = char;
  using category = io::sink_tag;
  CheckedSink(int fd, std::streamsize part, std::shared_ptr<int> failure)
      : fd_(fd), part_(part), failure_(std::move(failure)) {}
  std::streamsize write(const char* text, std::streamsize size) {
    if (*failure_ != 0) return size;  // what is left when a stream is destroyed would fail, or wait, again
    for (std::streamsize done = 0; done < size;) {
      wait_for_room();
      const ssize_t written = ::write(fd_, text + done, static_cast<size_t>(std::min(size - done, part_)));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        *failure_ = errno;
        throw std::system_error(errno, std::generic_category());
      }
      done += written;
    }
    return size;
  }

 private:
  // A reader who reads no more must not keep the process from ending: neither a signal that comes while this waits, nor
  // one that came before.
  void wait_for_room() {
    constexpr int kMilliseconds = 100;
    for (;;) {
      pollfd room = {fd_, POLLOUT, 0};
      if (poll(&room, 1, 0) != 0) return;  // room, or an error that write() will tell
      if (interrupting_signal() != 0) {
        *failure_ = EINTR;
        throw_if_interrupted("writing");
      }
      (void)poll(&room, 1, kMilliseconds);
    }
  }

  int fd_;
  std::streamsize part_;          // that is written at once
  std::shared_ptr<int> failure_;  // errno of the first failure: Boost's flush loses the exception
};

// The ending of a name that says how the file is packed; "" if it is not.
std::string packing_of(std::string_view path) {
  for (const char* ending : {".gz", ".bz2", ".xz", ".zst"}) {
    if (path.ends_with(ending)) return ending;
  }
  return "";
}

void push_packer(io::filtering_ostream& out, const std::string& path) {
  constexpr std::streamsize kBuffer = 1 << 16;
  const std::string packing = packing_of(path);
  if (packing == ".gz") out.push(io::gzip_compressor(), kBuffer);
  if (packing == ".bz2") out.push(io::bzip2_compressor(), kBuffer);
  if (packing == ".xz") out.push(io::lzma_compressor(), kBuffer);
  if (packing == ".zst") out.push(io::zstd_compressor(), kBuffer);
}

fs::path partial_name(const fs::path& path, int number) {
  const std::string name = path.filename(), packing = packing_of(name);
  return path.parent_path() / cat(name.substr(0, name.size() - packing.size()), ".partial",
                                  number > 1 ? std::to_string(number) : "", packing);
}

}  // namespace

struct LineWriter::Stream {
  int fd = -1;
  std::optional<MarkedFolder> aside;  // of what is to be put in place
  fs::path temporary;                 // in it
  fs::path target;                    // what it replaces
  std::shared_ptr<int> failure = std::make_shared<int>(0);
  io::filtering_ostream out;
  std::optional<ReaderWatch> watch;                  // of what is not a regular file
  bool shows_lines = false;                          // to such a reader, as they come
  std::chrono::steady_clock::time_point shown = {};  // when the reader last got all that there was

  void checked(const std::string& path, const std::function<void()>& action) {
    try {
      action();
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& e) {
      throw_failure(path);
      throw Error(cat("cannot write ", output_name(path), ": ", e.what()));
    }
    throw_failure(path);
  }

  // Throws the failure that the sink met: Boost loses the exceptions of a packer's flush and end.
  void throw_failure(const std::string& path) const {
    if (*failure == EINTR) throw_if_interrupted("writing");
    if (*failure == 0) return;
    const std::string what = cat("cannot write ", output_name(path), ": ", std::strerror(*failure));
    if (*failure == EPIPE) throw ReaderLeft(what);
    throw Error(what);
  }

  // Ends the output. `put_in_place` is called for a file that is written aside, and returns what rename(2) does.
  void close(const std::string& path, const std::function<int()>& put_in_place) {
    watch.reset();
    checked(path, [&] {
      out.flush();
      out.reset();
    });
    checked(path, [&] {
      if (!aside) return;
      if (sync_at_last(fd) != 0 || put_in_place() != 0) throw std::system_error(errno, std::generic_category());
      aside.reset();
      const fs::path folder = folder_of(target);
      remove_leftovers({&folder, 1});
    });
  }

  ~Stream() {
    try {
      out.reset();
    } catch (...) {  // reported by close(); a destructor may not throw
    }
    if (fd > STDERR_FILENO) ::close(fd);
  }
};

LineWriter::LineWriter(const std::string& path) : path_(path), stream_(std::make_unique<Stream>()) {
  if (path == "-") {
    stream_->fd = STDOUT_FILENO;
  } else {
    const OutputTarget target = output_target(path);
    stream_->target = target.path;
    if (target.replaces) {
      stream_->aside.emplace(folder_of(target.path), path);
      stream_->temporary = *stream_->aside / "new";
    }
    stream_->fd = open_output(target, stream_->temporary);
  }
  if (stream_->fd < 0) throw Error(cat("cannot write '", path, "': ", std::strerror(errno)));
  push_packer(stream_->out, path);
  const bool is_packed = stream_->out.size() > 0;
  struct stat status = {};
  const bool is_file = fstat(stream_->fd, &status) == 0 && S_ISREG(status.st_mode);
  // A pipe that has any room takes this number of bytes without waiting for its reader.
  constexpr std::streamsize kBuffer = 1 << 16, kWithoutWaiting = PIPE_BUF;
  stream_->out.push(CheckedSink(stream_->fd, is_file ? kBuffer : kWithoutWaiting, stream_->failure), kBuffer);
  stream_->out.exceptions(std::ios::badbit);
  if (!is_file) stream_->watch.emplace(stream_->fd, output_name(path));
  stream_->shows_lines = !is_file && !is_packed;
}

LineWriter::~LineWriter() = default;
LineWriter::LineWriter(LineWriter&&) noexcept = default;

void LineWriter::write(std::string_view text) {
  stream_->checked(path_, [&] { stream_->out.write(text.data(), static_cast<std::streamsize>(text.size())); });
}

// A reader gets a first line when it is there, and further ones a few times a second: one that wanted no more than that
// must be able to leave before a buffer is full.
void LineWriter::line(std::string_view text) {
  constexpr auto kPause = std::chrono::milliseconds(200);
  write(text);
  write("\n");
  if (!stream_->shows_lines) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - stream_->shown < kPause) return;
  stream_->shown = now;
  flush();
}

void LineWriter::flush() {
  stream_->checked(path_, [&] { stream_->out.flush(); });
}

void LineWriter::close() {
  stream_->close(path_, [&] { return rename(stream_->temporary.c_str(), stream_->target.c_str()); });
}

std::string LineWriter::close_as_partial() {
  if (!stream_->aside) return "";
  fs::path name;
  stream_->close(path_, [&] {
    int failed = 0;
    for (int number = 1; number == 1 || (failed != 0 && errno == EEXIST); ++number) {
      name = partial_name(stream_->target, number);
      failed = rename_to_new(stream_->temporary, name);
    }
    return failed;
  });
  return name.string();
}

}  // namespace fovea
