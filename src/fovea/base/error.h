#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace fovea {

// Replaces control characters by blanks. Names from untrusted files can contain newlines and terminal escapes.
std::string one_line(std::string text);

// A mistake of the user or of the world (a file, a disk), never of the program. what() is one line, except for
// UsageError: what is wrong, what was got, what was expected, what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string what) : std::runtime_error(one_line(std::move(what))) {}

 protected:
  struct AsItIs {};
  Error(const std::string& what, AsItIs /*choice*/) : std::runtime_error(what) {}
};

// A mistake on the command line itself; `fovea` exits with 2 instead of 1. Lines that point into it may follow.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& what) : Error(what, AsItIs()) {}
};

// Ends the work between two steps because a signal asked for it (see signals.h).
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fovea
