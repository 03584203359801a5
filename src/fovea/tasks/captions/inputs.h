#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "fovea/data/feature_set.h"
#include "fovea/data/image_set.h"

namespace fovea::captions {

// Files of images or of features.
struct InputFiles {
  std::vector<std::string> features;  // one kind of: images (data/image_set.h), .npy of float32, .safetensors
  std::string ids = {};               // file of the images' ids, one per line; empty: see Inputs
  std::string features_option = "--features", ids_option = "--image-ids";
};

// Images, each as a sequence of vectors: patches of its pixels, row by row, or features of its regions. An id names an
// image: the line of the file of ids, else the tensor's name in a .safetensors file, else its number, counted from 0.
class Inputs {
 public:
  // Images are cut into patches of `patch_size` x `patch_size` pixels. Throws an Error for files that cannot be read,
  // that are of several kinds or sizes, and for ids that are missing or named twice.
  Inputs(const InputFiles& files, int64_t patch_size);

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  const std::string& id(int64_t image) const { return ids_[static_cast<size_t>(image)]; }
  std::optional<int64_t> find(const std::string& id) const;

  bool are_images() const { return std::holds_alternative<data::ImageSet>(source_); }
  data::ImageShape image_shape() const;  // 0 x 0 x 0 of features
  int64_t width() const;                 // numbers of a vector
  int64_t length(int64_t image) const;   // vectors of an image
  // Appends the numbers of an image's vectors; pixels are mapped from 0 ... 255 to -1 ... 1. Throws an Error if a
  // feature is not finite.
  void append(int64_t image, std::vector<float>& out) const;

  std::string fingerprint() const;  // of ids, sizes and values

 private:
  void set_ids(const InputFiles& files, std::vector<std::string> names, int64_t count);
  void choose(const std::vector<std::string>& names, const InputFiles& files);
  void check_patches(const std::string& option) const;
  void append_patches(std::span<const uint8_t> values, std::vector<float>& out) const;

  std::variant<data::ImageSet, data::FeatureSet> source_;
  int64_t patch_size_;
  std::vector<std::string> ids_;
  std::unordered_map<std::string, int64_t> numbers_;  // of each id
  std::vector<int64_t> place_;                        // of each image in source_
};

}  // namespace fovea::captions
