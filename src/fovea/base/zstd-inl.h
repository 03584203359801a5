#pragma once
#include <zstd.h>
#include <zstd_errors.h>

#include <boost/iostreams/categories.hpp>
#include <boost/iostreams/read.hpp>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

namespace fovea {

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

}  // namespace fovea
