#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/sentencepiece_model.h"

namespace sentencepiece {
class SentencePieceProcessor;
namespace util {
class Status;
}
}  // namespace sentencepiece

namespace fovea::text {

// A piece as the library gives it, and the bytes [begin, end) of the line that it stands for.
struct LibraryPiece {
  int id = 0;
  size_t begin = 0, end = 0;
  std::string text;
};

// Throws an Error unless the library could encode a line.
void require_encoded(const sentencepiece::util::Status& status);

// The library's pieces of a line. Long lines are encoded in parts, or without the middle of their unknown runs
// (long_lines.h), so that the work grows like the line.
std::vector<LibraryPiece> library_pieces(const sentencepiece::SentencePieceProcessor& processor, const ModelSpec& spec,
                                         std::string_view line);

}  // namespace fovea::text
