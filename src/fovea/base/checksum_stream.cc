#include "fovea/base/checksum_stream.h"

#include <xxhash.h>

#include <array>
#include <cstdio>
#include <new>

namespace fovea {

struct ChecksumStream::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { (void)XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> hash{XXH3_createState()};
};

ChecksumStream::ChecksumStream() : state_(std::make_unique<State>()) {
  if (!state_->hash || XXH3_64bits_reset(state_->hash.get()) == XXH_ERROR) throw std::bad_alloc();
}
ChecksumStream::~ChecksumStream() = default;

void ChecksumStream::add(std::string_view bytes) {
  (void)XXH3_64bits_update(state_->hash.get(), bytes.data(), bytes.size());
}

std::string ChecksumStream::result() const {
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_digest(state_->hash.get())));
  return hex.data();
}

}  // namespace fovea
