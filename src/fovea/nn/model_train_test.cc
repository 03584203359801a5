#include "fovea/nn/test_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/positions.h"

namespace fovea::nn::model_train_test {
namespace {

using namespace testing;
using ::testing::HasSubstr;

void check_model(const ModelConfig& config) {
  Model model = make(config);
  const Packed source = random_batch({3, 5, 1}, 17, 1), target = random_batch({4, 2, 6}, 17, 2);
  check_gradients(*model, [&] { return loss_of(model, source, target, {.training = true, .dropout_seed = 99}); });
}

TEST(TransformerGradients, EqualCentralDifferences) {
  const std::map<std::string, std::string> norm_of = {
      {"full", "pre"},
      {"topk(2)", "post"},
      {"relu+gated-rmsnorm", "post"},
      {"entmax(learned)+layernorm", "pre"},
      {"topk(2)+gate", "pre"},
      {"relu+rmsnorm+gate(head)", "post"},
      {"topk(3)+scaled", "pre"},
      {"1*entmax(1.5)+scaled+rmsnorm;1*scaled+rmsnorm;1*full+rmsnorm", "post"},
      {"1*topk(2)+gelu+rmsnorm-xavier;2*random(3)+rmsnorm-xavier", "pre"}};
  for (const auto& [attention, norm] : norm_of) {
    SCOPED_TRACE(attention);
    ModelConfig config = tiny(attention);
    config.enc_depth = config.dec_depth = 1;
    config.transformer_norm = norm;
    config.dim_vocabs = {17, 17};
    config.transformer_positions = norm == "pre" ? "learned" : "sinusoidal";
    config.max_positions = 8;
    config.tied_embeddings_all = norm == "post";
    config.transformer_ffn_activation = norm == "post" ? "relu" : "gelu";
    config.transformer_dropout = 0.2;
    config.transformer_dropout_ffn = 0.3;
    config.transformer_dropout_attention = 0.25;
    check_model(config);
  }
}

TEST(TransformerGradients, OfRotaryPositionsRmsNormsAndGates) {
  for (const bool pre : {false, true}) {
    ModelConfig config = tiny("topk(3)");
    config.enc_depth = config.dec_depth = 1;
    config.transformer_norm = pre ? "pre" : "post";
    config.transformer_norm_kind = "rms";
    config.dim_vocabs = {17, 17};
    config.transformer_positions = pre ? "rotary(100)" : "learned+rotary";
    config.max_positions = 8;
    config.transformer_ffn_activation = pre ? "swiglu" : "geglu";
    config.transformer_dropout = 0.2;
    config.transformer_dropout_ffn = 0.3;
    config.transformer_dropout_embedding = 0.1;
    check_model(config);
  }
}

TEST(TransformerGradients, OfPositionsThatActOnScores) {
  for (const char* positions : {"shaw(2,values)", "learned+transformer-xl(clamp=3)", "rotary+shaw(1)+alibi"}) {
    SCOPED_TRACE(positions);
    ModelConfig config = tiny("topk(3)");
    config.enc_depth = config.dec_depth = 1;
    config.dim_vocabs = {17, 17};
    config.transformer_positions = positions;
    config.max_positions = 8;
    config.transformer_dropout_attention = 0.2;
    check_model(config);
  }
}

TEST(EncoderDecoder, ABatchIsItsSentencesAlone) {
  Model model = make(tiny("topk(2)"));
  const std::vector<int64_t> source_lengths = {3, 1, 6}, target_lengths = {2, 5, 4};
  const Packed source = random_batch(source_lengths, 17, 3), target = random_batch(target_lengths, 19, 4);
  const at::Tensor together = full_pass(model, source, target);
  for (int64_t s = 0; s < 3; ++s) {
    const auto part = [s](const Packed& all) {
      const int64_t begin = all.offsets[s].item<int64_t>(), end = all.offsets[s + 1].item<int64_t>();
      return Packed{all.tokens.slice(0, begin, end), torch::tensor({int64_t{0}, end - begin}, at::kLong)};
    };
    const int64_t begin = target.offsets[s].item<int64_t>(), end = target.offsets[s + 1].item<int64_t>();
    const at::Tensor alone = full_pass(model, part(source), part(target));
    // In double; products of another number of rows may sum some hundred numbers near 1 in another order.
    EXPECT_LT((alone - together.slice(0, begin, end)).abs().max().item<double>(), 1e-12);
  }
}

TEST(EncoderDecoder, SeedsFixWeightsAndMasks) {
  ModelConfig config = tiny();
  config.transformer_dropout = config.transformer_dropout_attention = config.transformer_dropout_ffn = 0.3;
  Model one(config, 5), same(config, 5), other(config, 6);
  const auto equal = [](Model& a, Model& b) {
    bool all = true;
    for (auto& item : a->named_parameters()) all = all && item.value().equal(b->named_parameters()[item.key()]);
    return all;
  };
  EXPECT_TRUE(equal(one, same));
  EXPECT_FALSE(equal(one, other));
  const Packed source = random_batch({5, 3}, 17, 3), target = random_batch({4, 6}, 19, 4);
  const auto loss = [&](int64_t seed) {
    return loss_of(one, source, target, {.training = true, .dropout_seed = seed}).item<double>();
  };
  EXPECT_EQ(loss(1), loss(1));
  EXPECT_NE(loss(1), loss(2));
}

// Standard deviations and ranges of the distributions that the papers' models start from.
TEST(EncoderDecoder, InitialWeightsHaveTheirDistributions) {
  ModelConfig config = tiny("relu+gated-rmsnorm");
  config.dim_emb = 64;
  config.transformer_heads = 4;
  config.transformer_dim_ffn = 128;
  config.dim_vocabs = {1000, 1000};
  Model model(config, 1);
  const auto parameters = model->named_parameters();
  const auto uniform = [&](const std::string& name, double limit) {
    const at::Tensor& x = parameters[name];
    // n samples: the greatest is within a few limit / n of it, the deviation within 3 / sqrt(n) of limit / sqrt(3).
    const auto n = static_cast<double>(x.numel());
    EXPECT_LT(x.abs().max().item<double>(), limit) << name;
    EXPECT_GT(x.abs().max().item<double>(), limit * (1 - 20 / n)) << name;
    EXPECT_NEAR(x.std().item<double>(), limit / std::sqrt(3.0), 3 * limit / std::sqrt(n)) << name;
  };
  uniform("encoder.layers.0.self_attention.qkv.weight", std::sqrt(0.5) * std::sqrt(6.0 / 128));
  uniform("decoder.layers.1.cross_attention.kv.weight", std::sqrt(0.5) * std::sqrt(6.0 / 128));
  uniform("decoder.layers.1.cross_attention.q.weight", std::sqrt(0.5) * std::sqrt(6.0 / 128));
  uniform("encoder.layers.1.self_attention.out.weight", std::sqrt(6.0 / 128));
  uniform("encoder.layers.1.feed_forward.in.weight", std::sqrt(6.0 / 192));
  uniform("decoder.layers.0.self_attention.head_norm.gate", std::sqrt(3.0 / 64));
  EXPECT_TRUE(parameters["decoder.layers.0.self_attention.head_norm.gain"].equal(torch::ones({64})));
  EXPECT_TRUE(parameters["encoder.layers.0.self_attention.qkv.bias"].equal(torch::zeros({192})));
  const at::Tensor& embeddings = parameters["encoder.embeddings.weight"];
  // 64,000 normal samples of the deviation 1 / 8: within three and four standard errors.
  EXPECT_NEAR(embeddings.std().item<double>(), 1 / 8.0, 3 / 8.0 / std::sqrt(64000.0));
  EXPECT_NEAR(embeddings.mean().item<double>(), 0, 4 / 8.0 / std::sqrt(64000.0));
}

// ReLA-i's gain by the two readings of its paper: Xavier's draw from the whole width, or from that of a head.
TEST(EncoderDecoder, GainsOfReluAttentionStartInTheRangeOfTheirNorm) {
  const auto gain_of = [](const std::string& attention) {
    ModelConfig config = tiny(attention);
    config.dim_emb = 64, config.transformer_heads = 4;
    Model model(config, 1);
    return model->named_parameters()["decoder.layers.0.self_attention.head_norm.gain"].detach().clone();
  };
  const at::Tensor by_width = gain_of("rela-i"), by_head = gain_of("relu+rmsnorm-xavier(head)");
  EXPECT_LE(by_width.abs().max().item<double>(), std::sqrt(3.0 / 64));
  // 64 draws, of which none is in the outer tenth with a probability of 0.9^64 = 0.001; the seed is fixed.
  EXPECT_GT(by_width.abs().max().item<double>(), 0.9 * std::sqrt(3.0 / 64));
  EXPECT_LT((by_head - 2 * by_width).abs().max().item<double>(), 1e-6);  // the same draws, sqrt(4 heads) times as wide
}

TEST(EncoderDecoder, NoTwoParametersShareTheirNumbers) {
  ModelConfig config = tiny("relu+gated-rmsnorm");
  config.dim_vocabs = {17, 17};
  config.transformer_positions = "learned";
  config.max_positions = 17;
  Model model(config, 1);
  std::vector<std::pair<std::string, at::Tensor>> drawn;
  for (auto& item : model->named_parameters()) {
    if (!item.value().eq(item.value().view({-1})[0]).all().item<bool>()) drawn.emplace_back(item.key(), item.value());
  }
  // Two tables of words, two of positions, the output layer, and ten matrices of each pair of layers.
  EXPECT_GE(drawn.size(), 5U + 10U);
  for (size_t i = 0; i < drawn.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(drawn[i].second.equal(drawn[j].second)) << drawn[j].first << " and " << drawn[i].first;
    }
  }
}

TEST(EncoderDecoder, PositionsAreThoseOfFairseq) {
  // sin and cos of position / 10000^(i / (M / 2 - 1)), positions from 1; M = 6: 1, 1/100, 1/10000.
  const at::Tensor table = sinusoidal_table(3, 6);
  const double expected[6] = {std::sin(3.0), std::sin(0.03), std::sin(0.0003),
                              std::cos(3.0), std::cos(0.03), std::cos(0.0003)};
  // The frequencies are powers with rounded exponents.
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(table[2][i].item<double>(), expected[i], 1e-12);
  EXPECT_EQ(sinusoidal_table(2, 5)[1][4].item<double>(), 0);
}

TEST(EncoderDecoder, LearnedPositionsRefuseLongerInput) {
  ModelConfig config = tiny();
  config.transformer_positions = "learned";
  config.max_positions = 4;
  Model model(config, 1);
  const Packed fits = random_batch({4}, 17, 1), longer = random_batch({2, 5}, 17, 1);
  EXPECT_NO_THROW(model->encode({fits.tokens, fits.offsets}, {}));
  try {
    model->encode({longer.tokens, longer.offsets}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("5 tokens; the model has position vectors for 4"), std::string::npos);
  }
}

TEST(EncoderDecoder, SparsifyTrainSelectsInTrainingOnly) {
  ModelConfig sparse = tiny("topk(1)"), dense = tiny("full");
  sparse.sparsify = "train";
  Model model = make(sparse), reference = make(dense);
  const Packed source = random_batch({7, 4}, 17, 1), target = random_batch({6, 5}, 17, 2);
  const auto loss = [&](Model& of, bool training) {
    const torch::NoGradGuard guard;
    return loss_of(of, source, target, {.training = training, .dropout_seed = 1}).item<double>();
  };
  EXPECT_EQ(loss(model, false), loss(reference, false));
  EXPECT_NE(loss(model, true), loss(reference, true));
  sparse.sparsify = "both";
  Model both = make(sparse);
  EXPECT_EQ(loss(both, false), loss(model, true));
}

TEST(EncoderDecoder, OverridesAreThoseOfAModelTrainedSo) {
  Model dense = make(tiny("full")), sparse = make(tiny("topk(2)"));
  const Packed source = random_batch({7, 4}, 17, 1), target = random_batch({6, 5}, 19, 2);
  EXPECT_FALSE(full_pass(dense, source, target).equal(full_pass(sparse, source, target)));
  dense->override_attention({.attention = "topk(2)"});
  EXPECT_TRUE(full_pass(dense, source, target).equal(full_pass(sparse, source, target)));
  EXPECT_EQ(dense->config().attention, "topk(2)");
  const auto message = [&](const std::string& spec) -> std::string {
    try {
      dense->override_attention({.attention = spec});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("relu+gated-rmsnorm").find("it needs its norm's gate, which this model"), std::string::npos);
  EXPECT_NE(message("entmax(learned)").find("a learned alpha"), std::string::npos);
  EXPECT_NE(message("full+gate").find("the weights of gate, which this model"), std::string::npos);
  EXPECT_NE(message("full+gate(head)").find("the weights of gate(head), which this model"), std::string::npos);
  EXPECT_NE(message("full+scaled").find("it needs the weights of scaled, which this model"), std::string::npos);
  EXPECT_NE(message("sparsemax+scaled").find("the weights of scaled beside entmax"), std::string::npos);
  EXPECT_NE(message("full+sigmoid").find("give the number, such as sigmoid(-6.93"), std::string::npos);
  EXPECT_NE(message("clause(1)"), "");                                                     // clauses are an encoder's
  EXPECT_TRUE(full_pass(dense, source, target).equal(full_pass(sparse, source, target)));  // nothing changed

  ModelConfig mixed = tiny("full");
  mixed.attention_encoder = "window(3)";
  mixed.attention_cross = "topk(2)";
  Model trained = make(mixed), changed = make(tiny("full"));
  changed->override_attention({.attention_encoder = "window(3)", .attention_cross = "topk(2)"});
  EXPECT_TRUE(full_pass(changed, source, target).equal(full_pass(trained, source, target)));
}

// Heads that did not learn a number would read the one that training began with.
TEST(EncoderDecoder, OverridesReadWhatTheirHeadsHaveLearned) {
  const auto message = [](const std::string& trained, const std::string& spec) {
    Model model = make(tiny(trained));
    return message_of([&] { model->override_attention({.attention = spec}); });
  };
  EXPECT_THAT(message("1*sink;2*full", "sink"),
              HasSubstr("it needs learned sinks of heads 2 to 3, which this model (trained with 1*sink;2*full)"));
  EXPECT_THAT(message("2*entmax(learned);1*full", "entmax(learned)"), HasSubstr("a learned alpha of head 3,"));
  EXPECT_THAT(message("1*full;2*full+scaled", "full+scaled"), HasSubstr("the weights of scaled of head 1,"));
  EXPECT_THAT(message("1*entmax(1.5)+scaled;2*full+scaled", "full+scaled"),
              HasSubstr("the weights of scaled of head 1,"));
  EXPECT_EQ(message("1*sink;2*full", "1*topk(2)+sink;2*topk(3)"), "nothing was thrown");
  // A second override is not what the model was trained with.
  Model model = make(tiny("topk(2)"));
  model->override_attention({.attention = "topk(1)"});
  EXPECT_THAT(message_of([&] { model->override_attention({.attention = "sink"}); }),
              HasSubstr("trained with 3*topk(2))"));
}

// Files of weights have these names, and updates this order.
TEST(EncoderDecoder, NamesOfParametersAreStable) {
  ModelConfig config = tiny("relu+rmsnorm");
  config.enc_depth = config.dec_depth = 1;
  config.transformer_norm = "pre";
  config.transformer_positions = "learned";
  std::string names;
  Model model(config, 1);
  for (const auto& item : model->named_parameters()) names += item.key() + "\n";
  const auto affine = [](const std::string& name) { return name + ".weight\n" + name + ".bias\n"; };
  const auto side = [](const std::string& name) {
    return name + ".embeddings.weight\n" + name + ".positions.weight\n";
  };
  const auto self = [&](const std::string& layer) {
    return affine(layer + "self_attention.qkv") + affine(layer + "self_attention.out") + layer +
           "self_attention.head_norm.gain\n" + affine(layer + "self_attention_norm");
  };
  const auto feed_forward = [&](const std::string& layer) {
    return affine(layer + "feed_forward.in") + affine(layer + "feed_forward.out") + affine(layer + "feed_forward_norm");
  };
  const std::string cross = "decoder.layers.0.cross_attention";
  EXPECT_EQ(names, side("encoder") + self("encoder.layers.0.") + feed_forward("encoder.layers.0.") +
                       affine("encoder.norm") + side("decoder") + self("decoder.layers.0.") + affine(cross + ".q") +
                       affine(cross + ".kv") + affine(cross + ".out") + cross + ".head_norm.gain\n" +
                       affine(cross + "_norm") + feed_forward("decoder.layers.0.") + affine("decoder.norm") +
                       affine("output"));
}

TEST(EncoderDecoder, TiedEmbeddingsAreOneParameter) {
  ModelConfig config = tiny();
  config.dim_vocabs = {17, 17};
  const auto names = [&] {
    Model model(config, 1);
    std::set<std::string> all;
    for (auto& item : model->named_parameters()) {
      const std::string& name = item.key();
      if (name.find("embeddings") != std::string::npos || name.find("output") == 0) all.insert(name);
    }
    return all;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(names(), Names({"encoder.embeddings.weight", "decoder.embeddings.weight", "output.weight", "output.bias"}));
  config.tied_embeddings = true;
  EXPECT_EQ(names(), Names({"encoder.embeddings.weight", "decoder.embeddings.weight", "output.bias"}));
  config.tied_embeddings = false, config.tied_embeddings_src = true;
  EXPECT_EQ(names(), Names({"embeddings.weight", "output.weight", "output.bias"}));
  config.tied_embeddings_all = true;
  EXPECT_EQ(names(), Names({"embeddings.weight", "output.bias"}));
}

TEST(EncoderDecoder, RunsInBfloat16) {
  ModelConfig config = tiny("topk(2)+relu+gated-rmsnorm");
  config.dim_emb = 24;
  Model exact = make(config, at::kFloat), rounded = make(config, at::kFloat);
  rounded->to(at::kBFloat16);
  const Packed source = random_batch({5, 3}, 17, 3), target = random_batch({4, 6}, 17, 4);
  const double expected = loss_of(exact, source, target, {}).item<double>();
  const at::Tensor loss = loss_of(rounded, source, target, {});
  // Eight bits a number, some dozen operations deep.
  EXPECT_NEAR(loss.item<double>(), expected, 0.1 * expected);
  loss.backward();
  for (auto& item : rounded->named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined() && item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

}  // namespace
}  // namespace fovea::nn::model_train_test
