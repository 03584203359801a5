#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/text/corpus_options.h"

namespace fovea::text {

struct ByteParts {
  std::vector<std::string> files;  // train.txt, valid.txt and test.txt in the output folder
  bool has_more = false;           // the file has more bytes than the parts take
};

// Cuts one file as enwik8 and text8 are usually cut: the first bytes for training, the next for validation, then those
// for the test. `options.split_bytes` has the three sizes. Unpacks compressed files. Throws a UsageError if another
// option contradicts --split-bytes, and an Error if the file is too short.
ByteParts split_bytes(const CorpusOptions& options);

}  // namespace fovea::text
