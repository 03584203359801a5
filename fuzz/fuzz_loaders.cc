#include <cstddef>
#include <cstdint>
#include <string_view>

#include "loaders/loaders.h"

// Files from strangers: the first byte says which loader takes the rest.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  fovea::fuzz::silence_log();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fovea::fuzz::load(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
