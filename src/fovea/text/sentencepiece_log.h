#pragma once

namespace fovea::text {

// SentencePiece reports progress and errors on standard error by itself; after this call it does not, and its errors
// reach the user through Error.
void silence_sentencepiece();

}  // namespace fovea::text
