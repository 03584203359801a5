#pragma once
#include <filesystem>

#include "fovea/nn/safetensors.h"
#include "fovea/tasks/language/config.h"
#include "fovea/text/units.h"

// Decoder-only models in the form of Hugging Face's `transformers`: a folder of LlamaForCausalLM, MistralForCausalLM or
// Qwen2ForCausalLM, with config.json, model.safetensors or its shards, and the files of a tokeniser.
namespace fovea::language {

struct ForeignDecoder {
  LanguageConfig config;
  nn::NamedTensors weights;  // by the names of nn/model.h, float32
  text::Units units;
};

// Throws an Error that names the file and the field or tensor that cannot be taken over.
ForeignDecoder read_decoder(const std::filesystem::path& folder);

// Writes the files into an empty folder, tensors in the type `precision`: float32, bfloat16 or float16. Throws an Error
// if no family computes what the model does, or if its units are not tokens of such a folder.
void write_decoder(const ForeignDecoder& model, const std::string& precision, const std::filesystem::path& folder);

}  // namespace fovea::language
