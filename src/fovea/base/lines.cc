#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <boost/iostreams/categories.hpp>
#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zlib.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <boost/iostreams/read.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <istream>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fovea/base/descriptor.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace io = boost::iostreams;
namespace {

// Unpacks zstd frames for a Boost stream. Boost's own filter takes a frame that was cut short for a whole one.
class ZstdUnpacker {
 public:
  using char_type = char;
  using category = boost::iostreams::multichar_input_filter_tag;

  // Bytes unpacked into [to, to + size), or -1 at the end. Throws std::runtime_error for what is damaged or cut short,
  // std::bad_alloc if it needs more memory than there is.
  template <class Source>
  std::streamsize read(Source& source, char* to, std::streamsize size) {
    State& s = *state_;
    ZSTD_outBuffer out{to, static_cast<size_t>(size), 0};
    while (out.pos == 0) {
      // A full output may have left unpacked bytes inside: they come before more input.
      if (s.in.pos == s.in.size && !s.filled) {
        const std::streamsize got = boost::iostreams::read(source, s.packed.data(), std::ssize(s.packed));
        if (got < 0 && s.wanted != 0) throw std::runtime_error("zstd: a frame is not whole");
        if (got < 0) return -1;
        s.in = {s.packed.data(), static_cast<size_t>(got), 0};
      }
      s.wanted = ZSTD_decompressStream(s.context.get(), &out, &s.in);
      require_memory(s.wanted);
      if (ZSTD_isError(s.wanted) != 0) throw std::runtime_error(ZSTD_getErrorName(s.wanted));
      s.filled = out.pos == out.size && s.wanted != 0;  // 0: the frame ended, and all of it is out
    }
    return static_cast<std::streamsize>(out.pos);
  }

 private:
  // zstd asks for more memory than its usual limit with `--long=31` alone.
  static void require_memory(size_t result) {
    const ZSTD_ErrorCode error = ZSTD_getErrorCode(result);
    if (error == ZSTD_error_memory_allocation || error == ZSTD_error_frameParameter_windowTooLarge)
      throw std::bad_alloc();
  }

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  struct State {
    std::unique_ptr<ZSTD_DCtx, Free> context{ZSTD_createDCtx()};
    std::vector<char> packed = std::vector<char>(1 << 16);
    ZSTD_inBuffer in{nullptr, 0, 0};
    size_t wanted = 0;  // 0 between frames
    bool filled = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();  // Boost copies filters
};

// Ctrl-C ends the writer of a pipe too: the end that this makes is not the text's.
void check_end() { throw_if_interrupted("reading"); }

// Bytes before and after unpacking. A few thousand can be made to unpack to many times the machine's memory.
class Growth {
 public:
  explicit Growth(std::string name) : name_(std::move(name)) {}
  void add_packed(std::streamsize size) { packed_ += size; }
  void add_unpacked(std::streamsize size) {
    constexpr std::streamsize kAlways = 100 << 20, kMost = 500;  // gzip can do 1032, of one repeated character
    unpacked_ += size;
    if (unpacked_ > kAlways && unpacked_ / kMost > packed_)
      throw Error(cat("cannot unpack ", name_, ": it grows to more than ", thousands(kMost),
                      " times its size, as no text does; if it is meant to, unpack it first"));
  }

 private:
  std::string name_;
  std::streamsize packed_ = 0, unpacked_ = 0;
};

// A descriptor that was peeked into: the bytes already read come first.
class PeekedSource {
 public:
  using char_type = char;
  using category = io::source_tag;
  PeekedSource(int fd, std::string head, std::string name, std::shared_ptr<Growth> growth)
      : fd_(fd), head_(std::move(head)), name_(std::move(name)), growth_(std::move(growth)) {}
  std::streamsize read(char* out, std::streamsize size) {
    const std::streamsize got = take(out, size);
    growth_->add_packed(std::max<std::streamsize>(got, 0));
    return got;
  }

 private:
  std::streamsize take(char* out, std::streamsize size) {
    if (!head_.empty()) {
      const size_t take = std::min(head_.size(), static_cast<size_t>(size));
      std::memcpy(out, head_.data(), take);
      head_.erase(0, take);
      return static_cast<std::streamsize>(take);
    }
    for (;;) {
      const ssize_t got = ::read(fd_, out, static_cast<size_t>(size));
      if (got > 0) return got;
      if (got == 0) {
        check_end();
        return -1;
      }
      if (errno != EINTR) throw Error(cat("cannot read ", name_, ": ", std::strerror(errno)));
      throw_if_interrupted("reading");
    }
  }

  int fd_;
  std::string head_;
  std::string name_;
  std::shared_ptr<Growth> growth_;
};

bool starts_with(const std::string& head, std::string_view magic) { return head.compare(0, magic.size(), magic) == 0; }

// Unpacks for a Boost stream by the codec inside one of Boost's filters. If the rest is damaged or missing, Boost's
// filters lose the bytes that they unpacked last. Here those bytes come first, and the next read throws.
template <class Filter>
class Unpacker {
 public:
  using char_type = char;
  using category = io::multichar_input_filter_tag;
  explicit Unpacker(const Filter& filter) : state_(std::make_shared<State>(State{filter})) {}

  template <class Source>
  std::streamsize read(Source& source, char* to, std::streamsize size) {
    State& s = *state_;
    char* out = to;
    while (out == to) {
      if (s.failure) std::rethrow_exception(s.failure);
      if (s.next == s.end && !s.input_ended) fill(source);
      if (s.part_ended && s.next == s.end) return -1;
      unpack(out, to + size);
    }
    return out - to;
  }

 private:
  struct State {
    Filter filter;
    std::array<char, 4096> packed = {};
    const char *next = nullptr, *end = nullptr;  // of `packed`
    bool input_ended = false;
    bool part_ended = false;  // packed files may follow each other, as cat makes them
    std::exception_ptr failure = nullptr;
  };

  template <class Source>
  void fill(Source& source) {
    State& s = *state_;
    const std::streamsize got = io::read(source, s.packed.data(), std::ssize(s.packed));
    s.input_ended = got < 0;
    s.next = s.packed.data();
    s.end = s.next + std::max<std::streamsize>(got, 0);
  }

  void unpack(char*& out, char* out_end) {
    State& s = *state_;
    try {
      if (s.part_ended) s.filter.filter().close();  // ready for the next
      s.part_ended = !s.filter.filter().filter(s.next, s.end, out, out_end, s.input_ended);
    } catch (const std::exception&) {
      s.failure = std::current_exception();
    }
  }

  std::shared_ptr<State> state_;  // Boost copies filters
};

// An unpacker that counts what comes out of it.
template <class Inner>
class Limited {
 public:
  using char_type = char;
  using category = io::multichar_input_filter_tag;
  Limited(const Inner& inner, std::shared_ptr<Growth> growth) : inner_(inner), growth_(std::move(growth)) {}

  template <class Source>
  std::streamsize read(Source& source, char* to, std::streamsize size) {
    const std::streamsize got = inner_.read(source, to, size);
    growth_->add_unpacked(std::max<std::streamsize>(got, 0));
    return got;
  }

 private:
  Inner inner_;
  std::shared_ptr<Growth> growth_;
};

void push_unpacker(io::filtering_istream& in, const std::string& head, const std::shared_ptr<Growth>& growth) {
  using std::string_view_literals::operator""sv;
  constexpr int kGzip = 16 + 15;  // zlib's inflateInit2: gzip's frame, and the largest window
  const auto push = [&](const auto& unpacker) { in.push(Limited(unpacker, growth), 1 << 16); };
  if (starts_with(head, "\x1f\x8b"sv)) push(Unpacker(io::zlib_decompressor(kGzip)));
  if (starts_with(head,
                  "\xfd"
                  "7zXZ\0"sv))
    push(Unpacker(io::lzma_decompressor()));
  if (starts_with(head, "BZh"sv)) push(Unpacker(io::bzip2_decompressor()));
  if (starts_with(head, "\x28\xb5\x2f\xfd"sv)) push(ZstdUnpacker());
}

std::string peek(int fd, const std::string& name) {
  std::string head(6, '\0');
  size_t size = 0;
  while (size < head.size()) {
    const ssize_t got = ::read(fd, head.data() + size, head.size() - size);
    if (got == 0) {
      check_end();
      break;
    }
    if (got < 0 && errno != EINTR) throw Error(cat("cannot read ", name, ": ", std::strerror(errno)));
    if (got < 0) throw_if_interrupted("reading");
    // A terminal or a pipe hands over a line at a time: do not wait for more of a short one.
    if (got > 0 && std::memchr(head.data() + size, '\n', static_cast<size_t>(got)) != nullptr) {
      size += static_cast<size_t>(got);
      break;
    }
    if (got > 0) size += static_cast<size_t>(got);
  }
  head.resize(size);
  return head;
}

}  // namespace

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : cat("'", path, "'"); }

struct LineReader::Stream {
  int fd = -1;
  io::filtering_istream in;
  std::array<char, 1 << 14> part = {};  // of a line
  bool may_have_mark = false;           // nothing of a text was read yet
  std::string begin;                    // bytes that were taken from `in` and are to be read
  ~Stream() {
    in.reset();
    if (fd > STDERR_FILENO) ::close(fd);
  }
};

LineReader::LineReader(const std::string& path, Content content) : path_(path), stream_(std::make_unique<Stream>()) {
  stream_->may_have_mark = content == Content::kText;
  const std::string name = input_name(path);
  if (path != "-") require_file(path, "reading");
  stream_->fd = path == "-" ? STDIN_FILENO : open_input(path);
  if (stream_->fd < 0) throw Error(cat("cannot read ", name, ": ", std::strerror(errno)));
  std::string head = peek(stream_->fd, name);
  const auto growth = std::make_shared<Growth>(name);
  push_unpacker(stream_->in, head, growth);
  stream_->in.push(PeekedSource(stream_->fd, std::move(head), name, growth), 1 << 16);
  stream_->in.exceptions(std::ios::badbit);
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;

namespace {

std::string place_in(const LineReader& reader) {
  return reader.line_number() > 0 ? cat(" after line ", reader.line_number()) : "";
}

// Appends the rest of a line, or as much as fits into `part`. False at the end of the input.
template <class Part>
bool append_part(std::istream& in, Part& part, std::string& line, bool& line_ended) {
  in.getline(part.data(), std::ssize(part));
  const auto got = static_cast<size_t>(in.gcount());  // counts the line's end
  line_ended = in.good();
  line.append(part.data(), got - (line_ended ? 1 : 0));
  const bool is_full = in.fail() && !in.eof();
  if (is_full) in.clear();
  return line_ended || got > 0;
}

// Puts the exceptions of reading into words.
template <class Read>
void checked_read(const LineReader& reader, const Read& read) {
  try {
    read();
  } catch (const Error&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(cat("cannot read ", input_name(reader.path()), place_in(reader),
                    ": there is not enough memory; give the program more, or unpack the file first"));
  } catch (const std::exception&) {  // Boost's texts say no more than "iostream error"
    const std::string place = place_in(reader);
    throw Error(cat("cannot unpack ", input_name(reader.path()), place, ": the archive is damaged or cut short"));
  }
}

}  // namespace

// Looks at one byte after the other, and only as long as they make up the mark: a pipe may give no more for now.
void LineReader::skip_byte_order_mark() {
  if (!std::exchange(stream_->may_have_mark, false)) return;
  std::string& begin = stream_->begin;
  for (const char byte : kByteOrderMark) {
    if (stream_->in.peek() != static_cast<unsigned char>(byte)) return;
    begin.push_back(static_cast<char>(stream_->in.get()));
  }
  begin.clear();
}

bool LineReader::next(std::string& line) {
  bool more = false;
  checked_read(*this, [&] {
    skip_byte_order_mark();
    line = std::exchange(stream_->begin, {});
    more = !line.empty();
    bool line_ended = false;
    while (!line_ended && append_part(stream_->in, stream_->part, line, line_ended)) {
      more = true;
      if (line.size() <= kLongestLine) continue;
      throw Error(cat(input_name(path_), ", line ", line_number_ + 1, ": has more than ",
                      thousands(static_cast<int64_t>(kLongestLine)),
                      " bytes, as no line of text does; is it a text file? Break the line into shorter ones"));
    }
  });
  if (!more) return false;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  ++line_number_;
  return true;
}

std::string LineReader::rest() {
  constexpr size_t kPart = 1 << 16;
  std::string bytes;
  while (read(bytes, kPart) > 0) continue;
  return bytes;
}

size_t LineReader::read(std::string& bytes, size_t most) {
  const size_t before = bytes.size();
  size_t got = 0;
  checked_read(*this, [&] {
    skip_byte_order_mark();
    std::string& begin = stream_->begin;
    bytes.append(begin, 0, most);
    got = bytes.size() - before;
    begin.erase(0, got);
    bytes.resize(before + most);
    stream_->in.read(bytes.data() + before + got, static_cast<std::streamsize>(most - got));
    got += static_cast<size_t>(stream_->in.gcount());
  });
  bytes.resize(before + got);
  return got;
}

std::string read_unpacked(const std::string& path, Content content) { return LineReader(path, content).rest(); }

bool LineReader::next_text(std::string& line) {
  if (!next(line)) return false;
  if (!is_valid_utf8(line)) {
    throw Error(cat(input_name(path_), ", line ", line_number_,
                    ": is not UTF-8; convert the text, as with iconv -t UTF-8, or let 'fovea corpus' drop such lines"));
  }
  return true;
}

std::vector<std::string> read_lines(const std::string& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  for (std::string line; reader.next_text(line);) lines.push_back(line);
  return lines;
}

}  // namespace fovea
