#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn::image_positions_test {
namespace {

using namespace testing;
constexpr int64_t kHeight = 3, kWidth = 4, kDepth = 3, kValues = kHeight * kWidth * kDepth;

ImageTables some_tables() { return {torch::randn({kHeight, 5}), torch::randn({kWidth, 5}), torch::randn({kDepth, 5})}; }

// The vector of value `place`, from the definition: values lie row by row, pixel by pixel, channel by channel.
at::Tensor expected_vector(const ImageTables& tables, int64_t place) {
  int64_t at = 0;
  for (int64_t row = 0; row < kHeight; ++row) {
    for (int64_t column = 0; column < kWidth; ++column) {
      for (int64_t channel = 0; channel < kDepth; ++channel) {
        if (at++ == place) return tables.rows[row] + tables.columns[column] + tables.channels[channel];
      }
    }
  }
  return {};
}

TEST(ImagePositions, AreSumsOfRowColumnAndChannel) {
  const ImageTables tables = some_tables();
  const at::Tensor whole = at::arange(kValues), two = at::cat({whole, whole});
  for (const at::Tensor& position :
       {whole, two, torch::tensor({int64_t{35}, int64_t{0}, int64_t{17}}), at::arange(5, 9)}) {
    const PositionVectors vectors = tables.vectors({position, kValues});
    ASSERT_EQ(vectors.index.numel(), position.numel());
    for (int64_t t = 0; t < position.numel(); ++t) {
      const int64_t place = position[t].item<int64_t>();
      EXPECT_TRUE(vectors.table[vectors.index[t].item<int64_t>()].equal(expected_vector(tables, place))) << place;
    }
  }
}

TEST(ImagePositions, GradientsReachEveryTable) {
  ImageTables tables = some_tables();
  for (at::Tensor* table : {&tables.rows, &tables.columns, &tables.channels}) table->requires_grad_(true);
  const PositionVectors vectors = tables.vectors({at::arange(kValues), kValues});
  vectors.table.index_select(0, vectors.index).sum().backward();
  EXPECT_TRUE(tables.rows.grad().equal(torch::full({kHeight, 5}, kWidth * kDepth)));
  EXPECT_TRUE(tables.columns.grad().equal(torch::full({kWidth, 5}, kHeight * kDepth)));
  EXPECT_TRUE(tables.channels.grad().equal(torch::full({kDepth, 5}, kHeight * kWidth)));
}

Model image_decoder(const std::string& attention) {
  DecoderConfig config = tiny_decoder(attention);
  config.transformer_positions = "image";
  return make(config, at::kDouble, {.image_shape = {kHeight, kWidth, kDepth}});
}

TEST(ImagePositions, StepByStepIsTheFullPass) {
  for (const char* attention : {"full", "local(5)", "blocks(4,1)", "strided(3)", "2*local(4);1*strided(3)"}) {
    Model model = image_decoder(attention);
    std::vector<int64_t> row = {16};
    auto state = model->start(1, model->pack());
    for (int64_t t = 0; t < kValues; ++t) {
      const at::Tensor hidden = state->step(torch::tensor({row.back()}));
      // In double, sums of some hundred numbers near 1 in another order.
      EXPECT_LT((hidden - last_states(model, {row})).abs().max().item<double>(), 1e-11) << attention << ", " << t;
      row.push_back(t * 7 % 17);
    }
  }
}

TEST(ImagePositions, RefuseMoreValuesThanAnImageHas) {
  Model model = image_decoder("full");
  const std::vector<int64_t> longer(static_cast<size_t>(kValues) + 1, 1);
  EXPECT_EQ(message_of([&] { last_states(model, {longer}); }),
            "a sequence of 37 values; the model's images have 36 (3x4x3)");
}

TEST(ImagePositions, NamesOfParametersAreStable) {
  std::vector<std::string> names;
  for (const auto& item : image_decoder("full")->named_parameters()) {
    if (item.key().starts_with("positions.")) names.push_back(cat(item.key(), " ", item.value().size(0)));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"positions.rows 3", "positions.columns 4", "positions.channels 3"}));
}

}  // namespace
}  // namespace fovea::nn::image_positions_test
