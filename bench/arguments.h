#pragma once
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string_view>
#include <system_error>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

// Command lines of the tools here.
namespace fovea::bench {

inline int64_t whole_number(std::string_view text, std::string_view what, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most)
    throw UsageError(cat(what, ": got '", text, "', expected a whole number from 1 to ", most));
  return value;
}

// Runs the work and returns main()'s result: 0, or 1 or 2 as `fovea` does, with one line on standard error.
template <class Work>
int exit_status(const char* tool, const Work& work) {
  try {
    work();
    return 0;
  } catch (const UsageError& e) {
    std::fprintf(stderr, "%s: %s\n", tool, e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", tool, e.what());
    return 1;
  }
}

}  // namespace fovea::bench
