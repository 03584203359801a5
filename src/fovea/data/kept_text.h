#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/corpus.h"
#include "fovea/data/encoded_file.h"
#include "fovea/data/pair_source.h"

// Text that is encoded once: the encoded file is kept, and later trainings read it.
namespace fovea::data {

struct KeptText {
  std::vector<std::string> paths;  // of the text: regular files
  std::string folder;              // of the encoded file; made if its parent is there
  std::string option;              // that named the folder, for messages
  std::string encoding;            // all else that decides the pairs: vocabularies, limits
  EncodedShape shape;
};

// Opens the encoded file of the text. If there is none, or the text has changed since, or the file is damaged, `encode`
// makes it: by one process, while others that ask for the same file wait. Logs the report of `encode`.
std::unique_ptr<PairSource> keep_text(const KeptText& text, const std::function<TextReport(PairSink&)>& encode);

// The bytes of text in these files, as far as their sizes say: a compressed file counts four times. 0 if one of them is
// not a regular file.
int64_t expected_bytes(const std::vector<std::string>& paths);

}  // namespace fovea::data
