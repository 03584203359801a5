#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/text/corpus_options.h"

namespace fovea::text {

struct ByteParts {
  std::vector<std::string> files;  // train.txt, valid.txt and test.txt in the output folder
  bool has_more = false;           // the file goes on behind the parts
};

// Cuts one file, as enwik8 and text8 are cut: the first bytes of it for training, the next for validation and for the
// test, as `options.split_bytes` says. Compressed files are unpacked. Throws a UsageError for options that contradict
// it, and an Error for a file that is too short.
ByteParts split_bytes(const CorpusOptions& options);

}  // namespace fovea::text
