#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace fovea {

// checksum() of base/file.h for bytes that come in parts.
class ChecksumStream {
 public:
  ChecksumStream();
  ~ChecksumStream();
  ChecksumStream(const ChecksumStream&) = delete;
  ChecksumStream& operator=(const ChecksumStream&) = delete;

  void add(std::string_view bytes);
  std::string result() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea
