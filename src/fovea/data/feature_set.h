#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/value_file.h"

namespace fovea::data {

// Sequences of vectors of one width, such as the features of an image's regions. The vectors stay in their files.
class FeatureSet {
 public:
  FeatureSet() = default;
  explicit FeatureSet(int64_t width) : width_(width) {}
  // Adds one sequence: [rows, width] float32 from byte `offset` of the file on.
  void add(const std::shared_ptr<const ValueFile>& file, size_t offset, int64_t rows);

  // Adds those of another set of the same width.
  void add_all(const FeatureSet& other);

  int64_t size() const { return static_cast<int64_t>(items_.size()); }
  int64_t width() const { return width_; }
  int64_t rows(int64_t index) const { return items_[static_cast<size_t>(index)].rows; }
  // Appends the values of a sequence, [rows, width]. Throws an Error if they are gone from the file.
  void append(int64_t index, std::vector<float>& out) const;

 private:
  struct Item {
    const ValueFile* file;  // one of files_
    size_t offset;
    int64_t rows;
  };
  int64_t width_ = 0;
  std::vector<Item> items_;
  std::vector<std::shared_ptr<const ValueFile>> files_;
};

// The features of an .npy array [N, rows, width] of float32. Throws an Error for anything else.
FeatureSet read_npy_features(const std::string& path);

// XXH3 of sizes and values, like that of images (image_set.h).
std::string fingerprint(const FeatureSet& features);

}  // namespace fovea::data
