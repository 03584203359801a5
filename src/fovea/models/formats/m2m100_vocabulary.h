#pragma once
#include <cstdint>
#include <filesystem>

#include "fovea/text/vocab.h"

// The vocabularies of folders of M2M100ForConditionalGeneration: M2M100's and NLLB's, which both sides share. Their
// tokens of languages are marks such as >>de<< in ours.
namespace fovea::models {

// The vocabulary with `rows` pieces: the folder's, and additional ones that print nothing. Throws an Error that
// names the file if the tokeniser is of another kind, or has more pieces.
text::Vocab read_m2m100_vocabulary(const std::filesystem::path& folder, int64_t rows);

// Writes the files of the tokeniser: NLLB's, or M2M100's if the languages are those of M2M100, in its order. Throws an
// Error if a piece of text stands behind the marks.
void write_m2m100_vocabulary(const text::Vocab& vocab, const std::filesystem::path& folder);

}  // namespace fovea::models
