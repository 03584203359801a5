#include "fovea/base/error.h"

#include <algorithm>

namespace fovea {

std::string one_line(std::string text) {
  const auto controls = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), controls, ' ');
  return text;
}

}  // namespace fovea
