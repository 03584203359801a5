#include "fovea/data/image_batches.h"

#include <algorithm>
#include <numeric>

#include "fovea/base/shuffle.h"

namespace fovea::data {

void ImageSequences::add(std::span<const uint8_t> values, const ImageShape& shape, const ImageCut& cut) {
  const auto begin = std::ssize(outputs);
  append_cut(values, shape, cut, outputs);
  inputs.push_back(kImageBegin);
  inputs.insert(inputs.end(), outputs.begin() + begin, outputs.end() - 1);
  offsets.push_back(std::ssize(outputs));
}

ImageBatches::ImageBatches(const ImageSet& images, const ImageBatchOptions& options, int64_t epoch)
    : images_(images),
      options_(options),
      epoch_(static_cast<uint64_t>(epoch)),
      order_(static_cast<size_t>(images.size())) {
  std::iota(order_.begin(), order_.end(), 0);
  Rng rng(options_.seed, epoch_);
  shuffle(order_, rng);
}

int64_t ImageBatches::size() const { return (images_.size() + options_.mini_batch - 1) / options_.mini_batch; }

int64_t ImageBatches::items(int64_t batch) const {
  return std::min(options_.mini_batch, images_.size() - batch * options_.mini_batch);
}

// The cut depends on the seed, the image and the epoch.
ImageCut ImageBatches::cut_of(int64_t image) const {
  Rng rng(hash_combine(hash_combine(options_.seed, epoch_), static_cast<uint64_t>(image)));
  const ImageShape& from = images_.shape();
  const ImageShape& wanted = options_.shape;
  ImageCut cut = {.height = wanted.height, .width = wanted.width};
  cut.row = static_cast<int64_t>(rng.below(static_cast<uint64_t>(from.height - wanted.height + 1)));
  cut.column = static_cast<int64_t>(rng.below(static_cast<uint64_t>(from.width - wanted.width + 1)));
  cut.is_mirrored = options_.flips && rng.below(2) == 1;
  return cut;
}

ImageSequences ImageBatches::at(int64_t batch) const {
  ImageSequences result;
  for (int64_t i = 0; i < items(batch); ++i) {
    const int64_t image = order_[static_cast<size_t>(batch * options_.mini_batch + i)];
    result.add(images_.at(image), images_.shape(), cut_of(image));
  }
  return result;
}

}  // namespace fovea::data
