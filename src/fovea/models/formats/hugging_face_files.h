#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/models/formats/foreign_model.h"

// The files of a folder of MarianMTModel, and the tensors that are not of its layers.
namespace fovea::models {

// Throws an Error that names the option whose value MarianMTModel does not have.
void require_marian_architecture(const EncoderDecoderConfig& config);

// The vocabularies with <pad>, and tables with its rows: zeros, and a bias that makes it impossible.
struct PaddedModel {
  std::vector<std::string> source_pieces, target_pieces;  // by number
  ModelTables tables;
  int64_t padding = 0, end = 0;  // numbers of <pad> and </s>
};
// Throws an Error if the sides number <pad> or </s> differently.
PaddedModel with_padding(const ForeignModel& model);

// config.json, source.spm, target.spm, vocab.json, target_vocab.json of two vocabularies, tokenizer_config.json and
// generation_config.json.
std::string hugging_face_config(const EncoderDecoderConfig& config, const PaddedModel& padded);
void write_vocabulary_files(const ForeignModel& model, const PaddedModel& padded, const std::filesystem::path& folder);

}  // namespace fovea::models
