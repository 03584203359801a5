#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/formats/foreign_model.h"

// The files of a folder of MarianMTModel, and the tensors that are not of its layers.
namespace fovea::models {

// An encoder-decoder of Hugging Face's.
struct Architecture {
  std::string_view name, norm;  // the class, and its --transformer-norm
};
inline constexpr Architecture kMarianArchitecture = {"MarianMTModel", "post"},
                              kM2m100Architecture = {"M2M100ForConditionalGeneration", "pre"};
// Throws an Error: the model has something that the architecture does not have.
[[noreturn]] void refuse_architecture(const Architecture& architecture, const std::string& what);
// Throws such an Error if the model has something that neither architecture has, or the other's place of norms.
void require_architecture(const EncoderDecoderConfig& config, const Architecture& architecture);

// Throws an Error that names the option whose value MarianMTModel does not have.
void require_marian_architecture(const EncoderDecoderConfig& config);

// The vocabularies with a padding, whose vector is zeros, because the decoder begins with it. It is <pad> or, where
// that is a piece of the model with another vector, <zeros>. If the model has neither, the tables get rows for it:
// zeros, and a bias that makes it impossible.
struct PaddedModel {
  std::vector<std::string> source_pieces, target_pieces;  // by number
  ModelTables tables;
  std::string padding_piece;
  int64_t padding = 0, end = 0;   // numbers of the padding and of </s>
  std::vector<int64_t> unwanted;  // numbers of pieces that no translation has
};
// Throws an Error if the sides number the padding or </s> differently.
PaddedModel with_padding(const ForeignModel& model);

// config.json, source.spm, target.spm, vocab.json, target_vocab.json of two vocabularies, tokenizer_config.json and
// generation_config.json.
std::string hugging_face_config(const EncoderDecoderConfig& config, const PaddedModel& padded);
void write_vocabulary_files(const ForeignModel& model, const PaddedModel& padded, const std::filesystem::path& folder);

}  // namespace fovea::models
