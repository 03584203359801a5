#pragma once
#include <filesystem>
#include <string>

#include "fovea/models/formats/foreign_model.h"

// Folders of Hugging Face's MarianMTModel: config.json, model.safetensors, source.spm, target.spm and vocab.json.
namespace fovea::models {

// Throws an Error that names the file and the field or tensor that cannot be taken over.
ForeignModel read_hugging_face(const ForeignFiles& files);

// Writes the files into an empty folder. A vocabulary without a <pad> of zeros, which these models begin with, gets a
// padding that is never produced. Throws an Error if MarianMTModel cannot compute what the model does.
void write_hugging_face(const ForeignModel& model, const std::filesystem::path& folder);

// The configuration of a config.json; the sizes of the vocabularies included. Public for tests and fuzzing.
EncoderDecoderConfig parse_hugging_face_config(const std::string& json, const std::string& origin);

}  // namespace fovea::models
