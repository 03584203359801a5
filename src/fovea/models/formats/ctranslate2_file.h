#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The file model.bin of CTranslate2, version 6, little endian: the name of the specification, its revision, the
// variables, each with name, dimensions, type and bytes, and other names for some of them.
namespace fovea::models {

// The types of variables, by their numbers in the file.
enum class CTranslate2Type : uint8_t { kFloat32, kInt8, kInt16, kInt32, kFloat16, kBfloat16 };
inline constexpr std::array<size_t, 6> kCTranslate2Sizes = {4, 1, 2, 4, 2, 2};  // in bytes

struct CTranslate2Variable {
  std::vector<int64_t> shape;  // empty: a scalar
  CTranslate2Type type = CTranslate2Type::kFloat32;
  std::string_view bytes;  // in C order; not owned
};

struct CTranslate2File {
  std::string specification = "TransformerSpec";
  uint32_t revision = 7;
  std::map<std::string, CTranslate2Variable> variables;
  std::map<std::string, std::string> aliases;  // other names of variables
};

// The variables refer to `bytes`. Throws an Error that begins with `origin` for bytes that are not such a file, are cut
// short, or do not end with it.
CTranslate2File parse_ctranslate2(std::string_view bytes, const std::string& origin);
std::string print_ctranslate2(const CTranslate2File& file);

}  // namespace fovea::models
