#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/descriptor.h"

namespace fovea {

// A program that answers lines with lines, through its standard input and output. Its standard error is discarded. It
// ends with this object.
class ChildProcess {
 public:
  // Finds the program on the PATH. Throws an Error that begins with `failure` if it cannot be started.
  ChildProcess(const std::vector<std::string>& command, std::string_view failure);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Writes a line. The program may have ended: read_line() tells.
  void write_line(std::string_view line);
  // Reads the next line without its end; false if the program has ended. Throws Interrupted when a signal comes.
  bool read_line(std::string& line);

 private:
  struct Sockets {
    int ours = -1, theirs = -1;
  };
  static Sockets make_sockets();
  ChildProcess(const std::vector<std::string>& command, std::string_view failure, const Sockets& sockets);

  Descriptor ours_;
  int pid_ = -1;
  std::string buffer_;  // bytes read behind the last line
};

}  // namespace fovea
