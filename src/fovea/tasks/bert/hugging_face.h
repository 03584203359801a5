#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/models/tagging/config.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/safetensors.h"
#include "fovea/spec/model_config.h"
#include "fovea/text/encoder_vocab.h"

// BERT models in the form of Hugging Face's `transformers`: a folder with config.json, model.safetensors and the files
// of a tokeniser (hugging_face_tokenizer.h).
namespace fovea::bert {

// The task of converted models.
inline constexpr const char* kTask = tagging::kEncoderTask;

struct BertModel {
  EncoderConfig config;  // with the vocabulary's size
  text::EncoderVocab vocab;
  nn::NamedTensors weights;         // by the names of nn/model.h, float32
  std::vector<std::string> unused;  // tensors of the file that an encoder does not have, such as heads
};

// Whether the folder has a config.json.
bool is_hugging_face_folder(const std::filesystem::path& folder);

// Throws an Error that names the file and the tensor or field if something is missing, damaged or not BERT. If no file
// says whether text is lower-cased and loses its accents, it does if none of the pieces has capitals.
BertModel read_bert(const std::filesystem::path& folder);

// The text of config.json, without the others.
EncoderConfig parse_bert_config(const std::string& json, const std::string& origin);

// The model as `fovea convert` writes it.
nn::Checkpoint checkpoint_of(const BertModel& model);

// Writes a new folder. Throws an Error if the folder exists, or if BERT cannot express the model.
void write_bert(const BertModel& model, const std::filesystem::path& folder);

}  // namespace fovea::bert
