#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The head of a safetensors file, without tensors: 8 bytes little-endian header length, then JSON, then the data.
namespace fovea::nn {

struct SafetensorsEntry {
  std::string name, dtype;  // dtype as the format spells it: F32, BF16, I64 ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // of its bytes in the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  size_t data_start = 0;  // in the file
};

// Bytes of one element, 0 for an unknown dtype.
uint64_t safetensors_element_size(std::string_view dtype);

// Reads and checks the head of the file's bytes: sizes, JSON, duplicate keys, dtypes, shapes against bytes with
// overflow-checked arithmetic, no hole, no overlap, no byte left over. Errors begin with `source`.
SafetensorsHeader parse_safetensors_header(std::string_view file, std::string_view source);

// The length and the padded JSON; entries in the order of their bytes.
std::string print_safetensors_header(const SafetensorsHeader& header);

}  // namespace fovea::nn
