#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fovea/nn/model.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn::frozen_encoder_test {
namespace {

using testing::Packed;

// A whole translation pass: the states of the decoder's first step, which read projections of what encode() made.
at::Tensor first_step(Model& model, const Packed& source) {
  const torch::NoGradGuard guard;
  auto state =
      model->start({model->encode({source.tokens, source.offsets}, {}), source.offsets}, {0, 1}, model->pack());
  return state->step(torch::tensor({3, 5}, at::kLong));
}

TEST(FrozenEncoder, HasTheBitsOfTheWeightsOfItsMoment) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    EncoderDecoderConfig config = testing::tiny();
    config.transformer_ffn_activation = "relu";
    Model model = testing::make(config, type);
    const Packed source = testing::random_batch({5, 9}, 17, 1);
    const at::Tensor want = first_step(model, source);
    model->freeze_encoder();
    EXPECT_TRUE(torch::equal(first_step(model, source), want)) << type;
    {
      const torch::NoGradGuard guard;
      for (const auto& named : model->named_parameters())
        if (named.key().starts_with("encoder.layers.") && named.key().ends_with("feed_forward.in.weight"))
          named.value().zero_();
    }
    EXPECT_TRUE(torch::equal(first_step(model, source), want)) << "later changes are seen";
  }
}

TEST(FrozenEncoder, LeavesLayersInInt8) {
  Model model = testing::make(testing::tiny(), at::kFloat);
  const Packed source = testing::random_batch({5, 9}, 17, 1);
  model->use_int8();
  const at::Tensor want = first_step(model, source);
  model->freeze_encoder();
  EXPECT_TRUE(torch::equal(first_step(model, source), want));
}

}  // namespace
}  // namespace fovea::nn::frozen_encoder_test
