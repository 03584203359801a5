#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "fovea/base/file_set.h"

namespace fovea::text {

// The files that `fovea corpus` wrote into a folder, kept there in the file .corpus: "BYTES NAME" per line. The next
// call into the folder removes those that it does not replace, such as train.de of a corpus in another language.
class CorpusRecord {
 public:
  // Reads the record of the call before, if there is one.
  explicit CorpusRecord(std::filesystem::path folder);

  void add(const std::string& name, int64_t bytes) { written_[name] = bytes; }
  // Adds the record to the files that are replaced together.
  void write(FileSet& files) const;
  // Once these are in place: removes the files of the call before that are still as it wrote them, and says so. Warns
  // of others that look like parts of a corpus.
  void remove_others() const;

 private:
  void warn_of_unknown_parts() const;

  std::filesystem::path folder_;
  std::map<std::string, int64_t> before_, written_;  // name -> bytes
};

}  // namespace fovea::text
