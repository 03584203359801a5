#pragma once
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/nn/model.h"
#include "fovea/spec/testing/classic_layers.h"

// Small models and batches for the tests of this folder.
namespace fovea::nn::testing {

inline EncoderDecoderConfig tiny(const std::string& attention = "full") {
  EncoderDecoderConfig config;
  set_classic_layers(config);
  config.dim_emb = 12;
  config.enc_depth = 2;
  config.dec_depth = 2;
  config.transformer_heads = 3;
  config.transformer_dim_ffn = 10;
  config.transformer_dropout = 0;
  config.dim_vocabs = {17, 19};
  config.attention = attention;
  return config;
}

inline DecoderConfig tiny_decoder(const std::string& attention = "full") {
  DecoderConfig config;
  set_classic_layers(config, "pre");
  config.dim_emb = 12;
  config.dec_depth = 2;
  config.transformer_heads = 3;
  config.transformer_dim_ffn = 10;
  config.transformer_dropout = 0;
  config.dim_vocabs = {17};
  config.attention = attention;
  return config;
}

// Mechanisms of self-attention: every pattern with softmax, and every selection, transform and norm with two patterns.
inline std::vector<std::string> self_specs() {
  std::vector<std::string> all = {
      "full",     "window(3)",  "dilated(3,2)", "block(3)",    "global(2)",           "random(3)",
      "local(3)", "strided(2)", "fixed(3,1)",   "blocks(3,1)", "window(3)|global(1)", "block(4)&strided(2)"};
  for (const std::string stage :
       {"topk(2)", "topk(2,keep=window(2))", "sparsemax", "entmax(1.5)", "entmax(learned)", "relu+gated-rmsnorm",
        "gelu+layernorm", "top-p(0.5)+sigmoid(-1)+rmsnorm", "leaky-relu(0.1)+rmsnorm-xavier", "topk(3)+relu+rmsnorm"}) {
    all.push_back("full+" + stage);
    all.push_back("window(4)+" + stage);
  }
  for (const char* scaled : {"window(4)+scaled", "full+topk(2)+scaled", "window(4)+entmax(1.5)+scaled"})
    all.emplace_back(scaled);
  all.emplace_back("1*random(2)|window(2)+scaled;1*topk(2)+sparsemax+scaled;1*full");
  all.emplace_back("2*window(2);1*topk(2)");
  all.emplace_back("routed(2,3,causal)");
  all.emplace_back("blocktopk(3,2)");
  all.emplace_back("dsa(3)");
  all.emplace_back("dsa(4)+topk(2)+sparsemax");
  all.emplace_back("1*blocktopk(2,2,bounds)+topk(3);1*blocktopk(3,2)+relu;1*full");
  all.emplace_back("1*routed(3,2,causal)+topk(2);1*local(3);1*routed(2,4,causal)+entmax(learned)");
  all.emplace_back("1*entmax(learned);1*full;1*relu");
  return all;
}

struct Packed {
  at::Tensor tokens, offsets;
};

inline Packed random_batch(const std::vector<int64_t>& lengths, int64_t vocabulary, uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> offsets = {0}, tokens;
  for (const int64_t length : lengths) {
    offsets.push_back(offsets.back() + length);
    for (int64_t i = 0; i < length; ++i)
      tokens.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocabulary))));
  }
  return {torch::tensor(tokens, at::kLong), torch::tensor(offsets, at::kLong)};
}

// Whatever starts at a constant gets random values, so that a parameter left out shows.
inline void perturb(torch::nn::Module& model) {
  const torch::NoGradGuard guard;
  uint64_t seed = 7;
  for (auto& parameter : model.parameters()) {
    Rng rng(++seed);
    at::Tensor noise = torch::empty(parameter.sizes(), at::kDouble);
    for (int64_t i = 0; i < noise.numel(); ++i) noise.data_ptr<double>()[i] = 0.3 * rng.normal();
    parameter.add_(noise.to(parameter.dtype()));
  }
}

inline Model make(const ModelConfig& config, at::ScalarType type = at::kDouble, const MediaInput& media = {}) {
  Model model(config, 3, media);
  model->to(type);
  perturb(*model);
  return model;
}

// Hidden states of the full pass, [T, M].
inline at::Tensor full_pass(Model& model, const Packed& source, const Packed& target) {
  const torch::NoGradGuard guard;
  const at::Tensor memory = model->encode({source.tokens, source.offsets}, {});
  return model->decode({target.tokens, target.offsets, memory, source.offsets}, {});
}

// The last hidden state of each sequence, one sequence at a time, [B, M].
inline at::Tensor last_states(Model& model, const std::vector<std::vector<int64_t>>& sequences) {
  const torch::NoGradGuard guard;
  std::vector<at::Tensor> last;
  for (const std::vector<int64_t>& sequence : sequences) {
    const auto length = static_cast<int64_t>(sequence.size());
    last.push_back(model->decode({torch::tensor(sequence, at::kLong), torch::tensor({int64_t{0}, length})}, {})[-1]);
  }
  return torch::stack(last);
}

inline Packed packed(const std::vector<std::vector<int64_t>>& sequences) {
  std::vector<int64_t> offsets = {0}, tokens;
  for (const std::vector<int64_t>& sequence : sequences) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  return {torch::tensor(tokens, at::kLong), torch::tensor(offsets, at::kLong)};
}

inline double greatest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

// Expects that a cache that is filled and then stepped through has the states of the full pass. In float, where the
// fast kernels run, sums have another order.
inline void expect_steps_as_full_passes(Model& model, at::ScalarType type) {
  const double bound = type == at::kDouble ? 1e-11 : 1e-4;
  for (const StepRows kind : {StepRows::kApart, StepRows::kShared}) {
    std::vector<std::vector<int64_t>> rows = {{3, 1, 4}, {5}, {9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}};
    auto state = model->start(3, model->pack(), kind);
    const Packed batch = packed(rows);
    EXPECT_LT(greatest_difference(state->prefill(batch.tokens, batch.offsets), last_states(model, rows)), bound);
    for (int64_t token = 0; token < 4; ++token) {
      for (std::vector<int64_t>& row : rows) row.push_back(token);
      const at::Tensor hidden = state->step(torch::full({3}, token, at::kLong));
      EXPECT_LT(greatest_difference(hidden, last_states(model, rows)), bound) << "token " << token;
    }
  }
}

}  // namespace fovea::nn::testing
