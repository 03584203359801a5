#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/image.h"

namespace fovea::image {

// The layout of a picture's tiles: `count` of them, `columns` in each row.
struct GridPlan {
  int64_t count = 1, columns = 1;
};
// The shape of a grid of images of the shape `tile`. Throws an Error that names --output if the grid is too large.
data::ImageShape grid_shape(const data::ImageShape& tile, const GridPlan& plan);

// Images of one shape side by side, `columns` in each row, with white lines of 2 pixels between them and around.
data::Image grid_of(std::span<const data::Image> images, int64_t columns);

// How many times larger than `tile` an image is shown in a picture of `plan`, so that people see it: so that its
// shorter side has 96 pixels or more, as far as the picture does not become larger than a screen of 2,048 pixels.
int64_t enlargement(const data::ImageShape& tile, const GridPlan& plan);
// The image with each pixel as a square of `times` x `times`.
data::Image enlarged(const data::Image& image, int64_t times);

// The files of generated images: one file, or a file for each image.
class PictureFiles {
 public:
  // `output` ends in ".png", or is a folder that exists or whose name ends in '/'. Makes the folder. Throws an Error if
  // `output` is neither, or cannot be written.
  explicit PictureFiles(const std::string& output);
  bool is_folder() const { return is_folder_; }
  // The path of image `index` (from 0) of `total`: 0001.png and so on in a folder, or the one file.
  std::filesystem::path path(int64_t index, int64_t total) const;
  // Writes an image of a folder.
  void write(const data::Image& image, int64_t index, int64_t total) const;
  // The one file.
  void write(const data::Image& picture) const;

 private:
  std::string output_;
  bool is_folder_;
};

}  // namespace fovea::image
