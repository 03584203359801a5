#pragma once
#include <functional>
#include <string>

#include "fovea/base/error.h"

namespace fovea {

// The text of the Error that `action` throws, for tests on messages.
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace fovea
