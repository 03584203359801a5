#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/image.h"

namespace fovea::image {

// Images of one shape side by side, `columns` in each row, with white lines of 2 pixels between them and around.
data::Image grid_of(std::span<const data::Image> images, int64_t columns);

// Where generated images go: one file, or a file for each.
class PictureFiles {
 public:
  // `output` ends in ".png", or is a folder that exists or whose name ends in '/'. Makes the folder. Throws an Error if
  // `output` is neither, or cannot be written.
  explicit PictureFiles(const std::string& output);
  bool is_folder() const { return is_folder_; }
  // Image `index` (from 0) of a folder, which has `total`: 0001.png and so on.
  void write(const data::Image& image, int64_t index, int64_t total) const;
  // The one file.
  void write(const data::Image& picture) const;

 private:
  std::string output_;
  bool is_folder_;
};

}  // namespace fovea::image
