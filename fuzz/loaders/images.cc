#include "fovea/data/captions.h"
#include "fovea/data/image_batches.h"
#include "fovea/data/image_set.h"
#include "fovea/data/npy.h"
#include "fovea/data/png.h"
#include "loaders/loaders.h"

// Images to train on, their features and their captions.
namespace fovea::fuzz {
namespace {

const MemoryFile& image_file() {
  static const MemoryFile file;
  return file;
}

void check_batches(const data::ImageSet& images) {
  const data::ImageBatches batches(images, {.mini_batch = 3, .shape = images.shape(), .flips = true}, 1);
  int64_t count = 0;
  for (int64_t b = 0; b < batches.size(); ++b) {
    const data::ImageSequences batch = batches.at(b);
    require(std::ssize(batch.inputs) == batches.items(b) * images.shape().values(), "a batch lacks values");
    count += batches.items(b);
  }
  require(count == images.size(), "batches have other images than the file");
}

}  // namespace

void load_image_file(std::string_view bytes) {
  const data::ImageSet images = data::load_images({image_file().put(bytes)}, "--train-sets");
  require(images.size() > 0 && images.shape().values() > 0, "a file without images");
  if (images.size() * images.shape().values() < 1 << 20) check_batches(images);
  data::Image first = {images.shape(), {}};
  first.values = images.at(0);
  const data::Image again = must_load([&] { return data::decode_png(data::encode_png(first), "written"); });
  require(again.shape == first.shape && again.values == first.values, "an image changes as it is written");
}

void load_npy(std::string_view bytes) {
  const data::NpyHeader header = data::parse_npy_header(bytes, bytes.size(), "a.npy");
  require(header.images > 0 && header.shape.values() > 0, "an array without images");
  const auto values = static_cast<size_t>(header.images * header.shape.values());
  require(header.data_start + values == bytes.size(), "the values do not end with the file");
}

void load_npy_features(std::string_view bytes) {
  const data::NpyFeatureHeader header = data::parse_npy_features(bytes, bytes.size(), "a.npy");
  const auto values = static_cast<size_t>(header.items * header.rows * header.width);
  require(values > 0 && header.data_start + values * sizeof(float) == bytes.size(),
          "the values do not end with the file");
}

void load_captions(std::string_view bytes) {
  const std::vector<data::Caption> captions = data::parse_captions(bytes, "captions", {"train"});
  require(!captions.empty(), "a file without captions");
  for (const data::Caption& caption : captions) require(!caption.image.empty(), "a caption without an image");
}

}  // namespace fovea::fuzz
