#include "fovea/base/program_name.h"

#include "fovea/base/shell_word.h"

namespace fovea {
namespace {

std::string& name() {
  static std::string word = "fovea";
  return word;
}

}  // namespace

std::string program_name() { return name(); }

void set_program_name(std::string_view called) {
  name() = called.find('/') == std::string_view::npos ? "fovea" : shell_word(called);
}

}  // namespace fovea
