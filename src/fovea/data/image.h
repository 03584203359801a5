#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea::data {

// Images have 1 channel (grey) or 3 (red, green, blue), and at most this number of values.
inline constexpr int64_t kMostImageValues = 1 << 24;

struct ImageShape {
  int64_t height = 0, width = 0, channels = 0;
  int64_t values() const { return height * width * channels; }
  bool operator==(const ImageShape&) const = default;
};
std::string print(const ImageShape& shape);  // "32x32x3": height, width, channels

struct Image {
  ImageShape shape;
  std::vector<uint8_t> values;  // [height, width, channels]
};

// A part of an image of `shape`: height x width pixels from (row, column) on, mirrored left to right or not.
struct ImageCut {
  int64_t row = 0, column = 0, height = 0, width = 0;
  bool is_mirrored = false;
};
// The middle of an image that is at least as large as `wanted`.
ImageCut centre_cut(const ImageShape& shape, const ImageShape& wanted);

// Appends the values of a part of an image, row by row, pixel by pixel, channel by channel.
void append_cut(std::span<const uint8_t> values, const ImageShape& shape, const ImageCut& cut,
                std::vector<int64_t>& out);

}  // namespace fovea::data
