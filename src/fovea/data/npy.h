#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/image.h"

namespace fovea::data {

bool begins_npy(std::string_view bytes);

// The header of a file that numpy.save() wrote.
struct NpyHeader {
  int64_t images = 0;
  ImageShape shape;
  size_t data_start = 0;  // the place of the first value in the file
};
// The header of an array of features.
struct NpyFeatureHeader {
  int64_t items = 0, rows = 0, width = 0;
  size_t data_start = 0;
};
// The most bytes of a header.
inline constexpr size_t kLongestNpyHeader = 1 << 16;

// Reads the header of an array of images, [N, H, W, C] uint8 in C order. `begin` is the file's first kLongestNpyHeader
// bytes, or all of its `size` bytes. Throws an Error that begins with `name`, the file's name in quotes, for a damaged
// header, another type, order or shape, and if `size` is not that of the header and the values together.
NpyHeader parse_npy_header(std::string_view begin, size_t size, const std::string& name);

// Like parse_npy_header(), for an array [N, rows, width] of float32, little endian.
NpyFeatureHeader parse_npy_features(std::string_view begin, size_t size, const std::string& name);

// An array of any type and shape, in C order.
struct NpyArray {
  std::string type;  // "<f4", "|i1"
  std::vector<int64_t> shape;
  size_t data_start = 0;
};
// Like parse_npy_header(), for the types "<f4", "<f2", "|i1" (which some writers spell "<i1"), "|u1", "<i4" and "<i8",
// and any shape.
NpyArray parse_npy_array(std::string_view begin, size_t size, const std::string& name);

// The type of an array's numbers as its header spells it: "|u1", "<f4". Throws an Error as above.
std::string npy_type(std::string_view begin, const std::string& name);

}  // namespace fovea::data
