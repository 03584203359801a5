#include "fovea/data/image_batches.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace fovea::data::image_batches_test {
namespace {

using testing::ElementsAre;

// Images whose values are 0, 1, 2 ... in their order, beginning with `step` times the image's number.
ImageSet counting_images(int64_t images, const ImageShape& shape, int64_t step = 10) {
  auto values = std::make_shared<std::vector<uint8_t>>();
  for (int64_t i = 0; i < images; ++i) {
    for (int64_t v = 0; v < shape.values(); ++v) values->push_back(static_cast<uint8_t>(step * i + v));
  }
  return {shape, {{.images = images, .memory = std::move(values)}}};
}

TEST(ImageBatches, LooksAsItIsDrawnHere) {
  const ImageSet images = counting_images(1, {2, 2, 3});
  const ImageSequences batch = ImageBatches(images, {.shape = {2, 2, 3}}, 1).at(0);
  EXPECT_THAT(batch.outputs, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(batch.inputs, ElementsAre(256, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(batch.offsets, ElementsAre(0, 12));
}

TEST(ImageBatches, AnEpochHasEachImageOnce) {
  const ImageSet images = counting_images(23, {1, 2, 1});
  std::set<std::vector<int64_t>> orders;
  for (const uint64_t seed : {1, 2}) {
    for (const int64_t epoch : {1, 2}) {
      const ImageBatches batches(images, {.mini_batch = 5, .shape = {1, 2, 1}, .seed = seed}, epoch);
      ASSERT_EQ(batches.size(), 5);
      std::vector<int64_t> firsts;
      for (int64_t b = 0; b < 5; ++b) {
        const ImageSequences batch = batches.at(b);
        EXPECT_EQ(batches.items(b), b < 4 ? 5 : 3);
        ASSERT_EQ(std::ssize(batch.offsets), batches.items(b) + 1);
        for (size_t i = 0; i < batch.outputs.size(); i += 2) {
          EXPECT_EQ(batch.outputs[i + 1], batch.outputs[i] + 1);
          EXPECT_EQ(batch.inputs[i], kImageBegin);
          EXPECT_EQ(batch.inputs[i + 1], batch.outputs[i]);
          firsts.push_back(batch.outputs[i]);
        }
      }
      EXPECT_EQ(std::set<int64_t>(firsts.begin(), firsts.end()).size(), 23);
      orders.insert(firsts);
    }
  }
  EXPECT_EQ(orders.size(), 4) << "each seed and epoch has an order of its own";
}

// Each cut from its definition: the values at (row + y, column + x) of the image.
TEST(ImageBatches, CutsAndMirrorsAreAtAllPlaces) {
  const ImageShape whole = {3, 4, 3}, part = {2, 2, 3};
  const ImageSet images = counting_images(1, whole);
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t epoch = 1; epoch <= 400; ++epoch)
    ++seen[ImageBatches(images, {.shape = part, .flips = true}, epoch).at(0).outputs];
  std::set<std::vector<int64_t>> expected;
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      for (const bool mirrored : {false, true}) {
        std::vector<int64_t> values;
        for (int64_t y = 0; y < 2; ++y) {
          for (int64_t x = 0; x < 2; ++x) {
            for (int64_t c = 0; c < 3; ++c) values.push_back(((row + y) * 4 + column + (mirrored ? 1 - x : x)) * 3 + c);
          }
        }
        expected.insert(values);
      }
    }
  }
  ASSERT_EQ(expected.size(), 12);
  std::set<std::vector<int64_t>> got;
  for (const auto& [values, count] : seen) {
    got.insert(values);
    EXPECT_GT(count, 10) << "33 are expected of each";
  }
  EXPECT_EQ(got, expected);
}

TEST(ImageBatches, TheMiddleIsCutForScoring) {
  const ImageSet images = counting_images(1, {5, 6, 1});
  ImageSequences batch;
  batch.add(images.at(0), images.shape(), centre_cut(images.shape(), {2, 2, 1}));
  EXPECT_THAT(batch.outputs, ElementsAre(8, 9, 14, 15));
}

}  // namespace
}  // namespace fovea::data::image_batches_test
