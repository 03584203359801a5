#include "fovea/nn/model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn::model_decoder_test {
namespace {

using namespace testing;
using Sequences = std::vector<std::vector<int64_t>>;
using Rows = StepRows;

// In double, and in float, where the fast kernels run: sums of some hundred numbers near 1 in another order.
double bound_of(at::ScalarType type) { return type == at::kDouble ? 1e-11 : 1e-4; }

double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

// Draws a token for each row and appends it to the row's sequence.
at::Tensor grow(Sequences& rows, Rng& rng) {
  std::vector<int64_t> tokens;
  for (std::vector<int64_t>& row : rows) {
    row.push_back(static_cast<int64_t>(rng.below(17)));
    tokens.push_back(row.back());
  }
  return torch::tensor(tokens, at::kLong);
}

// One step of every row by a drawn token, against full passes.
void expect_step(Model& model, Stepper& state, Sequences& rows, Rng& rng, at::ScalarType type = at::kDouble) {
  const at::Tensor hidden = state.step(grow(rows, rng));
  EXPECT_LT(difference(hidden, last_states(model, rows)), bound_of(type)) << "rows of " << rows[0].size();
}

Sequences inherited(const Sequences& rows, const std::vector<int64_t>& parents) {
  Sequences next;
  for (const int64_t parent : parents) next.push_back(rows[static_cast<size_t>(parent)]);
  return next;
}

// Options that each mechanism is tried with, in turn.
std::vector<DecoderConfig> variants(const std::string& attention) {
  DecoderConfig plain = tiny_decoder(attention), modern = plain, bare = plain;
  plain.transformer_norm = "post";
  modern.transformer_positions = "rotary";
  modern.transformer_norm_kind = "rms";
  modern.transformer_ffn_activation = "swiglu";
  modern.tied_embeddings = true;
  if (attention.find("routed") == std::string::npos) modern.transformer_heads_kv = 1, plain.transformer_heads_kv = 3;
  bare.transformer_positions = "none";
  bare.transformer_ffn_activation = "geglu";
  return {plain, modern, bare};
}

TEST(DecoderOnly, StepByStepIsTheFullPass) {
  // Prompts of different lengths, one longer than a cache's first room for 16 tokens.
  const Sequences prompts = {{3, 1, 4}, {5}, {9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2}};
  size_t turn = 0;
  for (const std::string& attention : self_specs()) {
    ++turn;
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      SCOPED_TRACE(attention + " " + at::toString(type));
      // Not without positions in float: of two equal words rounding would decide which one topk keeps.
      Model model = make(variants(attention)[turn % (type == at::kDouble ? 3 : 2)], type);
      for (const Rows kind : {Rows::kApart, Rows::kShared}) {
        Sequences rows = prompts;
        Rng rng(4);
        auto state = model->start(3, model->pack(), kind);
        const Packed batch = packed(rows);
        const at::Tensor hidden = state->prefill(batch.tokens, batch.offsets);
        EXPECT_LT(difference(hidden, last_states(model, rows)), bound_of(type));
        for (int step = 0; step < 5; ++step) {
          expect_step(model, *state, rows, rng, type);
        }
      }
    }
  }
}

// Rows that pass the lengths from which on a cache lays its heads apart (512) and a step reads parts of the keys
// (2,048).
TEST(DecoderOnly, LongRowsStepAsTheFullPass) {
  for (const char* attention : {"full", "topk(3)", "window(700)", "sparsemax"}) {
    SCOPED_TRACE(attention);
    Model model = make(tiny_decoder(attention), at::kFloat);
    Rng rng(6);
    Sequences rows(3);
    for (const auto& [row, length] : {std::pair{0, 508}, {1, 3}, {2, 2044}}) {
      for (int64_t i = 0; i < length; ++i)
        rows[static_cast<size_t>(row)].push_back(static_cast<int64_t>(rng.below(17)));
    }
    auto state = model->start(3, model->pack(), Rows::kApart);
    const Packed batch = packed(rows);
    state->prefill(batch.tokens, batch.offsets);
    for (int step = 0; step < 6; ++step) expect_step(model, *state, rows, rng, at::kFloat);
    state->reorder(std::vector<int64_t>{2, 0, 0});
    rows = {rows[2], rows[0], rows[0]};
    expect_step(model, *state, rows, rng, at::kFloat);
  }
}

// Rows without a prompt; rows that grow by several tokens at once after others.
TEST(DecoderOnly, RowsMayBeginEmptyAndGrowInPieces) {
  Model model = make(tiny_decoder("1*random(2);2*window(3)+topk(2)"));
  for (const Rows kind : {Rows::kApart, Rows::kShared}) {
    auto state = model->start(2, model->pack(), kind);
    Sequences rows(2);
    Rng rng(1);
    expect_step(model, *state, rows, rng);
    const Sequences more = {{1, 2, 3}, {4}};
    for (size_t r = 0; r < rows.size(); ++r) rows[r].insert(rows[r].end(), more[r].begin(), more[r].end());
    const Packed batch = packed(more);
    EXPECT_LT(difference(state->prefill(batch.tokens, batch.offsets), last_states(model, rows)), 1e-11);
    expect_step(model, *state, rows, rng);
    EXPECT_EQ(std::vector<int64_t>(state->lengths().begin(), state->lengths().end()), std::vector<int64_t>({5, 3}));
  }
}

// The qkv product and a cache have as many numbers as the heads of keys say.
TEST(DecoderOnly, FewerHeadsOfKeysAreFewerNumbers) {
  DecoderConfig config = tiny_decoder();
  const auto rows = [&] {
    Model model(config, 3);
    return model->named_parameters()["layers.0.self_attention.qkv.weight"].size(0);
  };
  EXPECT_EQ(rows(), 3 * 12);
  config.transformer_heads_kv = 1;
  EXPECT_EQ(rows(), 12 + 2 * 4);
  config.attention = "routed(2,3,causal)";
  EXPECT_THROW(rows(), Error);
}

// Histories chosen by hand: one prompt is continued by several rows, rows cross over, leave and multiply again.
TEST(DecoderOnly, ReorderedRowsContinueTheirParents) {
  const std::vector<std::vector<int64_t>> parents = {{0, 0, 1, 0},    {3, 1, 2},       {1},
                                                     {0, 0, 0, 0, 0}, {4, 3, 2, 1, 0}, {1, 1}};
  Model model = make(tiny_decoder("topk(3)"));
  for (const Rows kind : {Rows::kApart, Rows::kShared}) {
    Sequences rows = {{1, 2, 3, 4}, {5, 6}};
    Rng rng(8);
    auto state = model->start(2, model->pack(), kind);
    const Packed batch = packed(rows);
    state->prefill(batch.tokens, batch.offsets);
    for (const std::vector<int64_t>& chosen : parents) {
      state->reorder(chosen);
      rows = inherited(rows, chosen);
      // These steps are enough for ranges to outgrow their room while some of them belong to no row.
      for (int step = 0; step < 6; ++step) {
        expect_step(model, *state, rows, rng);
      }
    }
  }
}

TEST(DecoderOnly, ABatchIsItsSequencesAlone) {
  Model model = make(tiny_decoder("2*topk(2);1*random(2)"));
  const Sequences rows = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10}};
  const Packed batch = packed(rows);
  const torch::NoGradGuard guard;
  const at::Tensor together = model->decode({batch.tokens, batch.offsets}, {});
  const at::Tensor ends = batch.offsets.slice(0, 1) - 1;
  // Products of another number of rows may sum some hundred numbers near 1 in another order.
  EXPECT_LT(difference(together.index_select(0, ends), last_states(model, rows)), 1e-12);
}

TEST(DecoderOnly, LaterTokensChangeNothingBefore) {
  for (const std::string& attention : self_specs()) {
    SCOPED_TRACE(attention);
    Model model = make(tiny_decoder(attention), at::kFloat);
    const torch::NoGradGuard guard;
    at::Tensor tokens = torch::arange(9, at::kLong);
    const at::Tensor offsets = torch::tensor({int64_t{0}, int64_t{9}});
    const at::Tensor before = model->decode({tokens, offsets}, {});
    tokens[6] = 16;
    const at::Tensor after = model->decode({tokens, offsets}, {});
    EXPECT_TRUE(after.slice(0, 0, 6).equal(before.slice(0, 0, 6)));
    EXPECT_FALSE(after[6].equal(before[6]));
  }
}

TEST(DecoderOnly, NamesOfParametersAreStable) {
  DecoderConfig config = tiny_decoder("relu+gated-rmsnorm");
  config.dec_depth = 1;
  config.transformer_positions = "learned";
  const auto names = [&] {
    std::vector<std::string> all;
    Model model(config, 1);
    for (const auto& item : model->named_parameters()) all.push_back(item.key());
    return all;
  };
  const std::vector<std::string> expected = {"embeddings.weight",
                                             "positions.weight",
                                             "layers.0.self_attention.qkv.weight",
                                             "layers.0.self_attention.qkv.bias",
                                             "layers.0.self_attention.out.weight",
                                             "layers.0.self_attention.out.bias",
                                             "layers.0.self_attention.head_norm.gain",
                                             "layers.0.self_attention.head_norm.gate",
                                             "layers.0.self_attention_norm.weight",
                                             "layers.0.self_attention_norm.bias",
                                             "layers.0.feed_forward.in.weight",
                                             "layers.0.feed_forward.in.bias",
                                             "layers.0.feed_forward.out.weight",
                                             "layers.0.feed_forward.out.bias",
                                             "layers.0.feed_forward_norm.weight",
                                             "layers.0.feed_forward_norm.bias",
                                             "norm.weight",
                                             "norm.bias",
                                             "output.weight",
                                             "output.bias"};
  EXPECT_EQ(names(), expected);
  config.tied_embeddings = true;
  EXPECT_EQ(names().size(), expected.size() - 1);
  EXPECT_EQ(names()[expected.size() - 2], "output.bias");
}

TEST(DecoderOnly, OverridesAreThoseOfAModelTrainedSo) {
  Model dense = make(tiny_decoder("full")), sparse = make(tiny_decoder("topk(2)"));
  const Sequences rows = {{1, 2, 3, 4, 5, 6, 7}};
  EXPECT_FALSE(last_states(dense, rows).equal(last_states(sparse, rows)));
  dense->override_attention({.attention_decoder = "topk(2)"});
  EXPECT_TRUE(last_states(dense, rows).equal(last_states(sparse, rows)));
  EXPECT_EQ(dense->config().attention_decoder, "topk(2)");
  EXPECT_EQ(message_of([&] { dense->override_attention({.attention_encoder = "topk(2)"}); }),
            "--attention-encoder: the model has no encoder; use --attention or --attention-decoder");
  EXPECT_EQ(message_of([&] { dense->override_attention({.attention_cross = "topk(2)"}); }),
            "--attention-cross: the model has no encoder; use --attention or --attention-decoder");
  EXPECT_NE(message_of([&] { dense->override_attention({.attention = "entmax(learned)"}); }).find("a learned alpha"),
            std::string::npos);
  EXPECT_TRUE(last_states(dense, rows).equal(last_states(sparse, rows)));  // nothing changed
}

TEST(DecoderOnly, LearnedPositionsRefuseLongerTextAndKeepTheRows) {
  DecoderConfig config = tiny_decoder();
  config.transformer_positions = "learned";
  config.max_positions = 3;
  Model model = make(config);
  auto state = model->start(1, model->pack());
  const at::Tensor token = torch::tensor({int64_t{1}});
  for (int i = 0; i < 3; ++i) state->step(token);
  EXPECT_NE(message_of([&] { state->step(token); }).find("4 tokens; the model has position vectors for 3"),
            std::string::npos);
  EXPECT_EQ(state->lengths()[0], 3);
}

}  // namespace
}  // namespace fovea::nn::model_decoder_test
