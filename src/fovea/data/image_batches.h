#pragma once
#include <cstdint>
#include <vector>

#include "fovea/data/image_set.h"

namespace fovea::data {

struct ImageBatchOptions {
  int64_t mini_batch = 16;  // images of a batch
  ImageShape shape;         // of the cuts that are read; at most that of the images
  bool flips = false;       // mirrors half of the images
  uint64_t seed = 1;        // of the order, the cuts and the mirrors
};

// Images behind each other, as sequences of values.
struct ImageSequences {
  // Each output is a value from 0 to 255. Its input is the value before it, kImageBegin at the beginning of an image.
  std::vector<int64_t> inputs, outputs;
  std::vector<int64_t> offsets = {0};  // [images + 1]

  void add(std::span<const uint8_t> values, const ImageShape& shape, const ImageCut& cut);
};
// The symbols of image models: 256 values, and the one that begins an image.
inline constexpr int64_t kImageBegin = 256, kImageSymbols = 257;

// The batches of one epoch, a function of the images, the options and the epoch alone: every image once, in an order
// drawn for the epoch, the last batch with the rest. An image larger than `shape` is cut at a random place.
class ImageBatches {
 public:
  // `images` must outlive this.
  ImageBatches(const ImageSet& images, const ImageBatchOptions& options, int64_t epoch);
  int64_t size() const;
  int64_t items(int64_t batch) const;  // images
  ImageSequences at(int64_t batch) const;

 private:
  ImageCut cut_of(int64_t image) const;

  const ImageSet& images_;
  ImageBatchOptions options_;
  uint64_t epoch_;
  std::vector<int64_t> order_;
};

}  // namespace fovea::data
