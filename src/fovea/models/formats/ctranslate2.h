#pragma once
#include <filesystem>

#include "fovea/models/formats/foreign_model.h"

// Folders of CTranslate2's Transformers: model.bin, config.json and vocabularies. They hold no rules by which text is
// split into pieces: those are the SentencePiece models of ForeignFiles::vocabs, or source.spm and target.spm in the
// folder.
namespace fovea::models {

// Throws an Error that names the file and the variable that cannot be taken over. Weights of int8 and int16 are
// multiplied by their scales.
ForeignModel read_ctranslate2(const ForeignFiles& files);

// Writes the files into an empty folder, and source.spm and target.spm beside them. Throws an Error if CTranslate2
// cannot compute what the model does.
void write_ctranslate2(const ForeignModel& model, const std::filesystem::path& folder);

}  // namespace fovea::models
