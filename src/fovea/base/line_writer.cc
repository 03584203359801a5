#include <poll.h>
#include <unistd.h>

#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <system_error>

#include "fovea/base/aside.h"
#include "fovea/base/descriptor.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/output_target.h"
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
  CheckedSink(int fd, std::shared_ptr<int> failure) : fd_(fd), failure_(std::move(failure)) {}
  std::streamsize write(const char* text, std::streamsize size) {
    if (*failure_ != 0) return size;  // what is left when a stream is destroyed would fail, or wait, again
    for (std::streamsize done = 0; done < size;) {
      wait_for_room();
      const ssize_t written = ::write(fd_, text + done, static_cast<size_t>(size - done));
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
  std::shared_ptr<int> failure_;  // errno of the first failure: Boost's flush loses the exception
};

// By the name's ending.
void push_packer(io::filtering_ostream& out, const std::string& path) {
  constexpr std::streamsize kBuffer = 1 << 16;
  if (path.ends_with(".gz")) out.push(io::gzip_compressor(), kBuffer);
  if (path.ends_with(".bz2")) out.push(io::bzip2_compressor(), kBuffer);
  if (path.ends_with(".xz")) out.push(io::lzma_compressor(), kBuffer);
  if (path.ends_with(".zst")) out.push(io::zstd_compressor(), kBuffer);
}

}  // namespace

struct LineWriter::Stream {
  int fd = -1;
  std::string temporary;  // empty when the target itself is open
  fs::path target;        // what it replaces
  std::shared_ptr<int> failure = std::make_shared<int>(0);
  io::filtering_ostream out;

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

  // What the sink met: Boost loses the exceptions of a packer's flush and end.
  void throw_failure(const std::string& path) const {
    if (*failure == EINTR) throw_if_interrupted("writing");
    if (*failure != 0) throw Error(cat("cannot write ", output_name(path), ": ", std::strerror(*failure)));
  }

  ~Stream() {
    try {
      out.reset();
    } catch (...) {  // reported by close(); a destructor may not throw
    }
    if (fd > STDERR_FILENO) ::close(fd);
    if (!temporary.empty()) unlink(temporary.c_str());
  }
};

LineWriter::LineWriter(const std::string& path) : path_(path), stream_(std::make_unique<Stream>()) {
  if (path == "-") {
    stream_->fd = STDOUT_FILENO;
  } else {
    const OutputTarget target = output_target(path);
    stream_->target = target.path;
    if (target.replaces) stream_->temporary = aside_of(target.path, kNewAside).string();
    stream_->fd = open_output(target, stream_->temporary);
  }
  if (stream_->fd < 0) {
    stream_->temporary.clear();
    throw Error(cat("cannot write '", path, "': ", std::strerror(errno)));
  }
  push_packer(stream_->out, path);
  stream_->out.push(CheckedSink(stream_->fd, stream_->failure), 1 << 16);
  stream_->out.exceptions(std::ios::badbit);
}

LineWriter::~LineWriter() = default;
LineWriter::LineWriter(LineWriter&&) noexcept = default;

void LineWriter::write(std::string_view text) {
  stream_->checked(path_, [&] { stream_->out.write(text.data(), static_cast<std::streamsize>(text.size())); });
}

void LineWriter::line(std::string_view text) {
  write(text);
  write("\n");
}

void LineWriter::flush() {
  stream_->checked(path_, [&] { stream_->out.flush(); });
}

void LineWriter::close() {
  stream_->checked(path_, [&] {
    stream_->out.flush();
    stream_->out.reset();
  });
  stream_->checked(path_, [&] {
    if (stream_->temporary.empty()) return;
    if (sync_at_last(stream_->fd) != 0 || rename(stream_->temporary.c_str(), stream_->target.c_str()) != 0)
      throw std::system_error(errno, std::generic_category());
    stream_->temporary.clear();
    remove_leftovers(stream_->target);
  });
}

}  // namespace fovea
