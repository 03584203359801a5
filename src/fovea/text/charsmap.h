#pragma once
#include <string>

namespace fovea::text {

// SentencePiece's compiled form of the rule that each of kWhiteSpaces, and U+2581, which is the library's sign of a
// blank, becomes a blank.
std::string white_space_charsmap();

}  // namespace fovea::text
