#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/tasks/language/config.h"

// config.json of decoder-only models in the form of Hugging Face's `transformers`.
namespace fovea::language {

// Segments of a converted model are as long as its longest text, and no longer than this, so that a command without
// options does not ask for the memory that 131,072 tokens need.
inline constexpr int64_t kLongestSegment = 4096;

// Whether a folder's config.json is not of MarianMTModel, which has the same form on the command line.
bool is_decoder_folder(const std::filesystem::path& folder);

// The configuration of a config.json, with the number of rows of the vocabulary. Throws an Error that begins with
// `origin` and names the field that is missing, or that asks for something that we do not compute.
LanguageConfig parse_decoder_config(const std::string& json, const std::string& origin);

// The family that computes what the configuration says. Throws an Error that names the option whose value none of them
// has.
std::string family_of(const LanguageConfig& config);

// Numbers of tokens that config.json names. Equal: no token begins a text.
struct TextEnds {
  int64_t begin = 0;
  std::vector<int64_t> ends;
};
// The text of a config.json for weights of the type `dtype`, such as "bfloat16".
std::string print_decoder_config(const LanguageConfig& config, const TextEnds& ends, const std::string& dtype);

}  // namespace fovea::language
