#pragma once
#include <string>
#include <string_view>

#include "fovea/data/image.h"

namespace fovea::data {

bool begins_png(std::string_view bytes);

// Returns the image of a PNG file's bytes: grey of up to 8 bits as 1 channel, RGB of 8 bits and palettes as 3. Throws
// an Error that begins with `name`, the file's name in quotes, for other bytes, damaged or truncated files,
// transparency, 16 bits, and more than kMostImageValues values.
Image decode_png(std::string_view bytes, const std::string& name);

// Returns the bytes of a PNG file, for write_file().
std::string encode_png(const Image& image);

}  // namespace fovea::data
