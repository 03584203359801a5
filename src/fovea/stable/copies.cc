#include "fovea/stable/copies.h"

#include <atomic>
#include <iostream>

namespace fovea::stable {

// The dynamic linker gives all copies of the library in a process one variable of this name.
inline __attribute__((visibility("default"))) std::atomic<bool> one_copy_is_loaded{false};

bool is_first_copy() {
  static const bool kFirst = [] {
    const bool first = !one_copy_is_loaded.exchange(true);
    if (!first) {
      std::cerr
          << "fovea: a copy of libfovea_python.so is loaded already, so this one registers nothing; load one copy\n";
    }
    return first;
  }();
  return kFirst;
}

}  // namespace fovea::stable
