#pragma once
#include <string>

#include "fovea/base/error.h"

namespace fovea {

// Nobody reads the output any more. The reader has what it wanted, so the program ends without a message, and with 0.
class ReaderLeft : public Error {
 public:
  using Error::Error;
};

// Whether nobody reads the open file `fd`, a pipe or a terminal, any more.
bool has_no_reader(int fd);

// While one lives, throw_if_interrupted() (signals.h) also throws ReaderLeft when nobody reads the
// open file `fd`, a pipe or a terminal, any more: `fovea translate | head -1` must not go on for hours with lines that
// nobody gets. If several live at once, the one made last counts.
class ReaderWatch {
 public:
  // `name` is that of the file in the Error: "standard output", "'path'".
  ReaderWatch(int fd, std::string name);
  ~ReaderWatch();
  ReaderWatch(const ReaderWatch&) = delete;
  ReaderWatch& operator=(const ReaderWatch&) = delete;
};

// Called by throw_if_interrupted() at any rate: it asks the system ten times a second at most.
void throw_if_reader_left();

}  // namespace fovea
