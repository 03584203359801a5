#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/image.h"
#include "fovea/data/value_file.h"

namespace fovea::data {

// Images of one shape. Images of an .npy file stay in it, and are read when they are used.
class ImageSet {
 public:
  // Images that lie behind each other, in memory or in a file from byte `data_start` on.
  struct Part {
    int64_t images = 0;
    std::shared_ptr<const std::vector<uint8_t>> memory = nullptr;
    std::shared_ptr<const ValueFile> file = nullptr;
    size_t data_start = 0;
  };
  ImageSet() = default;
  ImageSet(const ImageShape& shape, std::vector<Part> parts);

  int64_t size() const { return first_.back(); }
  const ImageShape& shape() const { return shape_; }
  // The values of an image, [height, width, channels]. Throws an Error if they are gone from its file.
  std::vector<uint8_t> at(int64_t index) const;

 private:
  ImageShape shape_;
  std::vector<Part> parts_;
  std::vector<int64_t> first_ = {0};  // the index of each part's first image; [parts + 1]
};

// Loads images, in the order of `paths`. A path is a folder (all its .png files, by name), a PNG file, an .npy array
// [N, H, W, C] uint8, or a binary batch of CIFAR-10, which may be compressed. Throws an Error for anything else and if
// the images differ in shape; `option` named the paths.
ImageSet load_images(const std::vector<std::string>& paths, const std::string& option);

// XXH3 of the number of images, their shape, and their values: tells whether a run resumes with the images that it
// began with. If there are more than 64 MiB of values, images at even distances stand for all.
std::string fingerprint(const ImageSet& images);

}  // namespace fovea::data
