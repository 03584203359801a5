#include "fovea/tasks/image/pictures.h"

#include <algorithm>
#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/png.h"

namespace fovea::image {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kLine = 2;  // pixels between images
constexpr int64_t kMostGridValues = int64_t{1} << 28;

}  // namespace

data::ImageShape grid_shape(const data::ImageShape& tile, const GridPlan& plan) {
  const int64_t rows = (plan.count + plan.columns - 1) / plan.columns;
  const int64_t height = rows * (tile.height + kLine) + kLine, width = plan.columns * (tile.width + kLine) + kLine;
  if (height > kMostGridValues / width / tile.channels)
    throw Error(cat("--output: a grid of ", plan.count, " images of ", print(tile), " is too large; name a folder, ",
                    "which ends in /, for one file per image"));
  return {height, width, tile.channels};
}

data::Image grid_of(std::span<const data::Image> images, int64_t columns) {
  const data::ImageShape tile = images.front().shape;
  data::Image grid;
  grid.shape = grid_shape(tile, {std::ssize(images), columns});
  grid.values.assign(static_cast<size_t>(grid.shape.values()), 255);
  for (int64_t i = 0; i < std::ssize(images); ++i) {
    const int64_t top = kLine + i / columns * (tile.height + kLine), left = kLine + i % columns * (tile.width + kLine);
    const std::vector<uint8_t>& values = images[static_cast<size_t>(i)].values;
    const int64_t row_values = tile.width * tile.channels;
    for (int64_t y = 0; y < tile.height; ++y) {
      const int64_t to = ((top + y) * grid.shape.width + left) * tile.channels;
      std::copy_n(values.begin() + y * row_values, row_values, grid.values.begin() + to);
    }
  }
  return grid;
}

int64_t enlargement(const data::ImageShape& tile, const GridPlan& plan) {
  constexpr int64_t kShown = 96, kScreen = 2048;
  const int64_t wanted = (kShown + std::min(tile.height, tile.width) - 1) / std::min(tile.height, tile.width);
  const int64_t rows = (plan.count + plan.columns - 1) / plan.columns;
  const int64_t fitting = kScreen / std::max(rows * (tile.height + kLine), plan.columns * (tile.width + kLine));
  return std::max<int64_t>(1, std::min(wanted, fitting));
}

data::Image enlarged(const data::Image& image, int64_t times) {
  const data::ImageShape& from = image.shape;
  data::Image large = {{from.height * times, from.width * times, from.channels}, {}};
  large.values.reserve(static_cast<size_t>(large.shape.values()));
  for (int64_t y = 0; y < large.shape.height; ++y) {
    for (int64_t x = 0; x < large.shape.width; ++x) {
      const auto pixel = image.values.begin() + ((y / times) * from.width + x / times) * from.channels;
      large.values.insert(large.values.end(), pixel, pixel + from.channels);
    }
  }
  return large;
}

PictureFiles::PictureFiles(const std::string& output) : output_(output), is_folder_(output.ends_with('/')) {
  std::error_code failed;
  is_folder_ = is_folder_ || fs::is_directory(output, failed);
  if (!is_folder_) {
    if (!lower(output).ends_with(".png"))
      throw Error(cat("--output: got '", output, "'; expected a file that ends in .png, or a folder that ends in /"));
    require_writable("--output", output);
    return;
  }
  fs::create_directories(output, failed);
  if (failed) throw Error(cat("--output: cannot make the folder '", output, "': ", failed.message()));
}

fs::path PictureFiles::path(int64_t index, int64_t total) const {
  if (!is_folder_) return output_;
  const std::string number = cat(index + 1);
  const size_t digits = std::max<size_t>(4, cat(total).size());
  return fs::path(output_) / cat(std::string(digits - number.size(), '0'), number, ".png");
}

void PictureFiles::write(const data::Image& image, int64_t index, int64_t total) const {
  const fs::path file = path(index, total);
  if (is_folder_) require_own_place("--output", file, OwnPlace::kFile);
  write_file(file, encode_png(image));
}

void PictureFiles::write(const data::Image& picture) const { write_file(output_, encode_png(picture)); }

}  // namespace fovea::image
