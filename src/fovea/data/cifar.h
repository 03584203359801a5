#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/data/image.h"

namespace fovea::data {

inline constexpr ImageShape kCifarShape = {32, 32, 3};

// Returns the images of a CIFAR-10 binary batch, [N, 32, 32, 3]; the labels are dropped. `begin` are bytes that were
// read before. A record has 3,073 bytes: a label from 0 to 9, then the red, green and blue plane, each row by row.
// Throws an Error that begins with `name`, the file's name in quotes, for an empty file, another label, and a last
// record that is not complete.
std::vector<uint8_t> read_cifar(LineReader& reader, std::string begin, const std::string& name);

}  // namespace fovea::data
