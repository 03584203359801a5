#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/corpus.h"
#include "fovea/data/encoded_file.h"
#include "fovea/data/pair_source.h"
#include "fovea/data/unit_file.h"
#include "fovea/data/unit_source.h"

// Text that is encoded once: the encoded file is kept, and later trainings read it.
namespace fovea::data {

// Bytes of tokens that are held in memory unless a folder for the encoded text is named.
inline constexpr int64_t kMostHeldBytes = int64_t{1} << 30;

// Shape is that of the encoded file: EncodedShape or UnitShape.
template <class Shape>
struct KeptText {
  std::vector<std::string> paths;  // of the text: regular files
  std::string folder;              // of the encoded file; made if its parent is there
  std::string option;              // that named the folder, for messages
  std::string encoding;            // all else that decides the tokens: vocabularies, limits
  Shape shape;
};

// Opens the encoded file of the text. If there is none, or the text has changed since, or the file is damaged, `encode`
// makes it: by one process, while others that ask for the same file wait. Logs the report of `encode`.
std::unique_ptr<PairSource> keep_text(const KeptText<EncodedShape>& text,
                                      const std::function<TextReport(PairSink&)>& encode);
std::unique_ptr<UnitSource> keep_text(const KeptText<UnitShape>& text,
                                      const std::function<TextReport(UnitSink&)>& encode);

// The folder for the encoded text: `named`, the value of --encoded-text, or else that of the first text if the tokens
// would take more than kMostHeldBytes, at about `held` bytes for a byte of text. Empty: the text is held in memory, if
// need be with a warning that its folder cannot be written.
std::string folder_of_encoded(const std::string& named, const std::vector<std::string>& paths, int64_t held);

// The bytes of text in these files, as far as their sizes say: a compressed file counts four times. 0 if one of them is
// not a regular file.
int64_t expected_bytes(const std::vector<std::string>& paths);

}  // namespace fovea::data
