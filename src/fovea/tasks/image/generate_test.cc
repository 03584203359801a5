#include "fovea/tasks/image/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "fovea/base/test_message.h"
#include "fovea/tasks/image/pictures.h"
#include "fovea/tasks/image/test_run.h"

namespace fovea::image::generate_test {
namespace {

using testing::HasSubstr;

class GenerateImages : public testing::Test {
 protected:
  GenerateImages() {
    test_.train.after_batches = 3;
    run(test_);
    options_.model = test_.train.model;
    options_.quiet = true;
    options_.output = test_.folder / "out.png";
    options_.cpu_threads = 1;
    options_.enlarge = 1;
  }
  std::string made() const {
    run_generate(options_);
    return read_file(options_.output);
  }
  data::Image picture() const { return data::decode_png(made(), "out.png"); }
  std::string refusal() const {
    return message_of([&] { run_generate(options_); });
  }
  TestRun test_;
  GenerateOptions options_;
};

// Tile (row, column) of a grid of 4 x 5 images.
std::vector<uint8_t> tile_of(const data::Image& grid, int64_t row, int64_t column) {
  std::vector<uint8_t> values;
  for (int64_t y = 0; y < 4; ++y) {
    for (int64_t x = 0; x < 15; ++x)
      values.push_back(
          grid.values[static_cast<size_t>(((2 + row * 6 + y) * grid.shape.width + 2 + column * 7) * 3 + x)]);
  }
  return values;
}

TEST_F(GenerateImages, DependOnTheirSeedAlone) {
  options_.count = 5;
  const std::string expected = made();
  EXPECT_EQ(made(), expected);
  options_.mini_batch = 2;
  EXPECT_EQ(made(), expected) << "--mini-batch";
  options_.cpu_threads = 2;
  EXPECT_EQ(made(), expected) << "--cpu-threads";
  options_.cpu_threads = 1;
  options_.seed = 2;
  EXPECT_NE(made(), expected) << "--seed";
  options_.temperature = 0;
  const std::string greedy = made();
  options_.seed = 3;
  EXPECT_EQ(made(), greedy) << "--temperature 0";
}

TEST_F(GenerateImages, AGridHasTheImagesOfAFolder) {
  options_.count = 5;
  const data::Image grid = picture();
  EXPECT_EQ(grid.shape, (data::ImageShape{2 * 6 + 2, 3 * 7 + 2, 3}));
  options_.output = test_.folder / "files/";
  EXPECT_EQ(run_generate(options_), 5);
  EXPECT_EQ(names_in(options_.output),
            (std::set<std::string>{"0001.png", "0002.png", "0003.png", "0004.png", "0005.png"}));
  for (int64_t i = 0; i < 5; ++i) {
    const std::string file = cat(options_.output, "000", i + 1, ".png");
    const data::Image image = data::decode_png(read_file(file), file);
    EXPECT_EQ(image.shape, (data::ImageShape{4, 5, 3}));
    EXPECT_EQ(tile_of(grid, i / 3, i % 3), image.values) << i;
  }
  options_.output = test_.folder / "out.png";
  options_.count = 1;
  EXPECT_EQ(picture().values, tile_of(grid, 0, 0)) << "one image has no lines around it, and --count changes nothing";
}

TEST_F(GenerateImages, AGridShowsSmallImagesEnlarged) {
  options_.count = 5;
  const data::Image grid = picture();
  options_.enlarge = 0;
  const int64_t times = 24;  // of 4 x 5 pixels
  const data::Image large = picture();
  EXPECT_EQ(large.shape, (data::ImageShape{2 * (4 * times + 2) + 2, 3 * (5 * times + 2) + 2, 3}));
  for (const auto& [row, column, y, x] : {std::array<int64_t, 4>{0, 0, 0, 0}, {0, 2, 3, 4}, {1, 1, 2, 1}}) {
    for (const int64_t part : {int64_t{0}, times - 1}) {
      const int64_t from = ((2 + row * 6 + y) * grid.shape.width + 2 + column * 7 + x) * 3;
      const int64_t top = 2 + row * (4 * times + 2) + y * times, left = 2 + column * (5 * times + 2) + x * times;
      const int64_t to = ((top + part) * large.shape.width + left + part) * 3;
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(large.values[static_cast<size_t>(to + c)], grid.values[static_cast<size_t>(from + c)]);
    }
  }
  options_.count = 1;
  EXPECT_EQ(picture().shape, (data::ImageShape{4, 5, 3})) << "one image is exact";
  options_.enlarge = 3;
  EXPECT_EQ(picture().shape, (data::ImageShape{12, 15, 3}));
}

TEST(PictureGrid, IsNoLargerThanAScreenWhereItEnlarges) {
  EXPECT_EQ(enlargement({16, 16, 3}, {9, 3}), 6);
  EXPECT_EQ(enlargement({32, 32, 3}, {1000, 32}), 1);
  EXPECT_EQ(enlargement({32, 32, 3}, {400, 20}), 3);
  EXPECT_EQ(enlargement({200, 90, 1}, {4, 2}), 2);
  EXPECT_EQ(enlargement({1, 1, 1}, {1'000'000'000, 1}), 1);
}

TEST_F(GenerateImages, CompletionsKeepTheUpperRows) {
  options_.complete = {test_.folder / "train/3.png", test_.folder / "train/7.png"};
  options_.rows = 3;
  options_.count = 2;
  const data::Image grid = picture();
  ASSERT_EQ(grid.shape, (data::ImageShape{2 * 6 + 2, 4 * 7 + 2, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    const std::string& file = options_.complete[static_cast<size_t>(i)];
    const std::vector<uint8_t> original = data::decode_png(read_file(file), file).values;
    std::vector<uint8_t> seen = original;
    std::fill(seen.begin() + 45, seen.end(), uint8_t{128});
    EXPECT_EQ(tile_of(grid, i, 0), seen);
    EXPECT_EQ(tile_of(grid, i, 3), original);
    for (int64_t c = 1; c <= 2; ++c) {
      const std::vector<uint8_t> completion = tile_of(grid, i, c);
      EXPECT_TRUE(std::equal(original.begin(), original.begin() + 45, completion.begin()));
      EXPECT_NE(completion, original);
    }
    EXPECT_NE(tile_of(grid, i, 1), tile_of(grid, i, 2));
  }
}

TEST_F(GenerateImages, SaysWhatIsWrong) {
  options_.rows = 2;
  EXPECT_EQ(refusal(), "--rows is for --complete, which is missing; name images to complete");
  options_.complete = {test_.folder / "train"};
  options_.rows = 0;
  EXPECT_EQ(refusal(), "--rows is missing; expected the number of rows of --complete to keep");
  options_.rows = 4;
  EXPECT_EQ(refusal(), "--rows: got 4; the model's images have 4 rows; expected 1 to 3");
  options_.rows = 2;
  options_.complete = {write_images(test_.folder / "other", 1, {4, 4, 3}, 1)};
  EXPECT_THAT(refusal(), HasSubstr("--complete: got images of 4x4x3"));
  options_.complete.clear();
  options_.rows = 0;
  options_.output = test_.folder / "samples.jpg";
  EXPECT_THAT(refusal(), HasSubstr("samples.jpg'; expected a file that ends in .png, or a folder that ends in /"));
  options_.output = test_.folder / "gone/samples.png";
  EXPECT_THAT(refusal(), HasSubstr("--output: cannot write"));
  options_.output = "";
  EXPECT_EQ(refusal(), "--output is missing; expected a .png file, or a folder that ends in /");
}

TEST_F(GenerateImages, OfOneRowHaveNoRowsToKeep) {
  test_.data.train_sets = {write_images(test_.folder / "rows", 3, {1, 5, 3}, 1)};
  test_.train.model = options_.model = test_.folder / "of-rows";
  run(test_);
  options_.complete = test_.data.train_sets;
  options_.rows = 1;
  EXPECT_EQ(refusal(),
            "--complete: the model's images have one row, and --rows keeps whole rows; leave --complete out");
}

TEST_F(GenerateImages, NeverReplaceAnImageThatTheyComplete) {
  const std::string folder = write_images(test_.folder / "inputs", 1, {4, 5, 3}, 1);
  std::filesystem::rename(folder + "/0.png", folder + "/0001.png");
  const std::string original = read_file(folder + "/0001.png");
  options_.rows = 2;
  for (const std::string& output : {folder, folder + "/", folder + "/0001.png"}) {
    options_.output = output;
    options_.complete = {folder};
    EXPECT_THAT(refusal(), HasSubstr("0001.png' is read too, as an image of --complete, and would be replaced"));
    options_.complete = {folder + "/0001.png"};
    EXPECT_THAT(refusal(), HasSubstr("0001.png' is read too, as an image of --complete, and would be replaced"));
  }
  EXPECT_EQ(read_file(folder + "/0001.png"), original);
  options_.output = folder + "/0002.png";
  options_.complete = {folder + "/0001.png"};
  EXPECT_EQ(run_generate(options_), 1) << "another file of the folder";
}

TEST_F(GenerateImages, RefuseAGridThatIsTooLargeBeforeTheyAreMade) {
  options_.complete = {test_.folder / "train"};  // ten images
  options_.rows = 2;
  options_.count = 1'000'000;
  EXPECT_THAT(refusal(), HasSubstr("is too large; name a folder"));
}

TEST(PictureGrid, IsRefusedIfItIsTooLarge) {
  const std::vector<data::Image> images(30, {{4000, 4000, 1}, {}});
  EXPECT_THAT(message_of([&] { grid_of(images, 6); }), HasSubstr("is too large; name a folder"));
}

}  // namespace
}  // namespace fovea::image::generate_test
