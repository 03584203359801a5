#include "fovea/tasks/language/generate.h"

#include <gtest/gtest.h>

#include "fovea/base/test_message.h"
#include "fovea/tasks/language/load_model.h"

namespace fovea::language::generate_test {
namespace {

TEST(GenerateText, SaysWhatIsWrongWithItsOptions) {
  GenerateOptions options;
  options.model = "m";
  validate(options);
  options.prompt = {"a"};
  validate(options);
  options.input = "prompts.txt";
  EXPECT_EQ(message_of([&] { validate(options); }),
            "--prompt: got prompts, and more in --input 'prompts.txt'; choose one of the two options");
  options.input = "-";
  options.precision = "int8";
  options.devices = "0";
  EXPECT_EQ(message_of([&] { validate(options); }),
            "--precision int8 runs on the CPU, but --devices is 0; use --devices cpu, or --precision bfloat16");
}

TEST(GenerateText, NarrowCachesNeedALayerThatKeepsThem) {
  LanguageConfig config;
  config.dec_depth = 2, config.dim_emb = 8, config.transformer_heads = 2, config.transformer_dim_ffn = 8;
  config.dim_vocabs = {257};
  const auto loaded = [&](const std::string& attention) {
    config.attention = attention;
    return LoadedModel{nn::Model(config, 1), config, text::Units::load("bytes")};
  };
  LoadedModel full = loaded("full");
  EXPECT_EQ(cache_type(full, "model"), nn::CacheType::kModel);
  EXPECT_EQ(cache_type(full, "bfloat16"), nn::CacheType::kBFloat16);
  EXPECT_EQ(cache_type(full, "int8"), nn::CacheType::kInt8);
  full.model->to(at::kBFloat16);
  EXPECT_EQ(cache_type(full, "bfloat16"), nn::CacheType::kModel) << "the model's own type";
  const LoadedModel window = loaded("window(4)");
  EXPECT_EQ(message_of([&] { cache_type(window, "int8"); }),
            "--cache-precision int8: got a model without a layer that can keep such keys and values (--attention "
            "window(4) on cpu); expected layers with full attention on the CPU; leave the option out");
}

}  // namespace
}  // namespace fovea::language::generate_test
