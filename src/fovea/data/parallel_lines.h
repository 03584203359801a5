#pragma once
#include <cstdint>
#include <string>

#include "fovea/base/file.h"

namespace fovea::data {

// The lines of two files in step, which must be UTF-8 and as many.
class ParallelLines {
 public:
  ParallelLines(const std::string& source_path, const std::string& target_path)
      : source_(source_path), target_(target_path) {}
  // The next line of each without its end; false at the end of both.
  bool next(std::string& source, std::string& target);
  int64_t line_number() const { return source_.line_number(); }  // of those last returned, from 1

 private:
  LineReader source_, target_;
};

}  // namespace fovea::data
