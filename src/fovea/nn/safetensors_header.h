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

// The bytes of the length, which begins the file.
inline constexpr size_t kSafetensorsLengthBytes = 8;

// The number of bytes that the length and the JSON have together, given the file's first bytes. At most the size that a
// whole head can have, because the length may be damaged.
size_t safetensors_head_bytes(std::string_view begin);

// Reads and checks the head of a file: sizes, JSON, duplicate keys, dtypes, shapes against bytes with overflow-checked
// arithmetic, no hole, no overlap, no byte left over. `begin` holds the head at least, `file_size` is in bytes. Errors
// begin with `source`.
SafetensorsHeader parse_safetensors_header(std::string_view begin, std::string_view source, size_t file_size);

// Like parse_safetensors_header() above, from all of a file's bytes.
SafetensorsHeader parse_safetensors_header(std::string_view file, std::string_view source);

// The length and the padded JSON; entries in the order of their bytes.
std::string print_safetensors_header(const SafetensorsHeader& header);

}  // namespace fovea::nn
