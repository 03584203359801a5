#pragma once
#include <stdexcept>
#include <string>

namespace fovea {

// A mistake of the user or of the world (a file, a disk), never of the program.
// what() is one line: what is wrong, what was got, what was expected, what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A mistake on the command line itself; `fovea` exits with 2 instead of 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ends the work between two steps because SIGINT or SIGTERM asked for it (see signals.h).
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fovea
