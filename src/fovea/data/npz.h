#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "fovea/data/npy.h"

// Files of numpy.savez(): a zip archive of arrays, "NAME.npy" each.
namespace fovea::data {

struct NpzArray {
  NpyArray header;
  std::string bytes;  // of the member, header included: the values begin at header.data_start
  std::string_view values() const { return std::string_view(bytes).substr(header.data_start); }
};

// All arrays of the file by their names without ".npy". Throws an Error that begins with the file's name if it is not
// such a file, is damaged (each member's CRC is checked), holds an array that parse_npy_array() does not read, has
// members that share bytes, or says that it unpacks to far more than weights do.
std::map<std::string, NpzArray> read_npz(const std::string& path);

}  // namespace fovea::data
