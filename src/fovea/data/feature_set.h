#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fovea::data {

// Sequences of vectors of one width, such as the features of an image's regions. Vectors of files stay in them.
class FeatureSet {
 public:
  FeatureSet() = default;
  explicit FeatureSet(int64_t width) : width_(width) {}
  // Adds one sequence: [rows, width] from `values` on, which `owner` keeps.
  void add(const std::shared_ptr<const void>& owner, const float* values, int64_t rows);

  // Adds those of another set of the same width.
  void add_all(const FeatureSet& other);

  int64_t size() const { return static_cast<int64_t>(items_.size()); }
  int64_t width() const { return width_; }
  int64_t rows(int64_t index) const { return items_[static_cast<size_t>(index)].rows; }
  std::span<const float> at(int64_t index) const;  // [rows, width]

 private:
  struct Item {
    const float* values;
    int64_t rows;
  };
  int64_t width_ = 0;
  std::vector<Item> items_;
  std::vector<std::shared_ptr<const void>> owners_;
};

// Maps an .npy array [N, rows, width] of float32. Throws an Error for anything else.
FeatureSet map_npy_features(const std::string& path);

// XXH3 of sizes and values, like that of images (image_set.h).
std::string fingerprint(const FeatureSet& features);

}  // namespace fovea::data
