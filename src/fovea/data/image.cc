#include "fovea/data/image.h"

#include "fovea/base/strings.h"

namespace fovea::data {

std::string print(const ImageShape& shape) { return cat(shape.height, "x", shape.width, "x", shape.channels); }

ImageCut centre_cut(const ImageShape& shape, const ImageShape& wanted) {
  return {.row = (shape.height - wanted.height) / 2,
          .column = (shape.width - wanted.width) / 2,
          .height = wanted.height,
          .width = wanted.width};
}

void append_cut(std::span<const uint8_t> values, const ImageShape& shape, const ImageCut& cut,
                std::vector<int64_t>& out) {
  for (int64_t y = 0; y < cut.height; ++y) {
    for (int64_t x = 0; x < cut.width; ++x) {
      const int64_t column = cut.column + (cut.is_mirrored ? cut.width - 1 - x : x);
      const auto pixel = values.begin() + ((cut.row + y) * shape.width + column) * shape.channels;
      out.insert(out.end(), pixel, pixel + shape.channels);
    }
  }
}

}  // namespace fovea::data
