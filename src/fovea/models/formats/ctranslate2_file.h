#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fovea/nn/safetensors.h"

// The file model.bin of CTranslate2, version 6, little endian: the name of the specification, its revision, the
// variables, each with name, dimensions, type and bytes, and other names for some of them.
namespace fovea::models {

struct CTranslate2File {
  std::string specification = "TransformerSpec";
  uint32_t revision = 7;
  nn::NamedTensors variables;                  // scalars have no dimension
  std::map<std::string, std::string> aliases;  // other names of variables
};

// Throws an Error that begins with `origin` for bytes that are no such file, are cut short, or go on after its end.
CTranslate2File parse_ctranslate2(std::string_view bytes, const std::string& origin);
std::string print_ctranslate2(const CTranslate2File& file);

}  // namespace fovea::models
