#include "fovea/nn/memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/model.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn::memory_test {
namespace {

using namespace testing;
using Texts = std::vector<std::vector<int64_t>>;

// Sums of some hundred numbers near 1 in another order.
constexpr double kExact = 1e-11;

std::vector<std::string> memory_specs() {
  return {"full",
          "topk(3)",
          "entmax(1.5)",
          "relu+gated-rmsnorm",
          "window(4)",
          "dilated(3,2)",
          "2*local(5);1*strided(2)",
          "routed(3,4,causal)",
          "1*routed(3,9,causal)+entmax(1.5);1*local(5);1*routed(2,2,causal)",
          "own routed(3,4,causal)",
          "own 2*routed(2,2,causal)+topk(1);1*local(3)"};
}

// "own ..." is a mechanism with --routing-keys own.
Model memory_model(const std::string& attention, const std::string& positions, const std::string& norm, int64_t depth) {
  const bool own = attention.starts_with("own ");
  DecoderConfig config = tiny_decoder(own ? attention.substr(4) : attention);
  if (own) config.routing_keys = "own";
  config.transformer_positions = positions;
  config.transformer_norm = norm;
  config.dec_depth = depth;
  return make(config, at::kDouble);
}

Texts random_texts(const std::vector<int64_t>& lengths, uint64_t seed) {
  Rng rng(seed);
  Texts texts;
  for (const int64_t length : lengths) {
    texts.emplace_back();
    for (int64_t i = 0; i < length; ++i) texts.back().push_back(static_cast<int64_t>(rng.below(17)));
  }
  return texts;
}

std::vector<int64_t> slice(const std::vector<int64_t>& text, int64_t begin, int64_t end) {
  return {text.begin() + begin, text.begin() + end};
}

// The hidden states of all tokens of each text, read side by side in segments of `segment` with so much memory.
std::vector<at::Tensor> in_segments(Model model, const Texts& texts, int64_t segment, int64_t limit,
                                    const ForwardContext& context = {}) {
  std::vector<std::vector<at::Tensor>> parts(texts.size());
  Memory memory = Memory::none(texts.size());
  std::vector<int64_t> active(texts.size());
  std::iota(active.begin(), active.end(), int64_t{0});
  for (int64_t begin = 0; !active.empty(); begin += segment) {
    Texts cut;
    for (const int64_t t : active) {
      const std::vector<int64_t>& text = texts[static_cast<size_t>(t)];
      cut.push_back(slice(text, begin, std::min(begin + segment, std::ssize(text))));
    }
    const Packed batch = packed(cut);
    const auto pass = std::make_shared<MemoryPass>(std::move(memory), limit);
    const at::Tensor hidden =
        model->decode({.tokens = batch.tokens, .offsets = batch.offsets, .memory = pass}, context);
    std::vector<int64_t> rows, left;
    for (size_t i = 0, at = 0; i < active.size(); at += cut[i].size(), ++i) {
      parts[static_cast<size_t>(active[i])].push_back(hidden.narrow(0, static_cast<int64_t>(at), std::ssize(cut[i])));
      if (begin + segment >= std::ssize(texts[static_cast<size_t>(active[i])])) continue;
      rows.push_back(static_cast<int64_t>(i));
      left.push_back(active[i]);
    }
    memory = pass->take().of(rows);
    active = left;
  }
  std::vector<at::Tensor> hidden;
  for (const auto& part : parts) hidden.push_back(at::cat(part));
  return hidden;
}

at::Tensor full_pass(Model model, const std::vector<int64_t>& text) {
  const Packed batch = packed({text});
  return model->decode({batch.tokens, batch.offsets}, {});
}

double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

// Law: with memory of everything before, segments equal one full pass.
TEST(Memory, OfTheWholeTextIsTheFullPass) {
  const torch::NoGradGuard guard;
  const Texts texts = random_texts({23, 9, 31, 1}, 3);
  for (const std::string& attention : memory_specs()) {
    for (const char* norm : {"pre", "post"}) {
      for (const char* positions : {"none", "rotary"}) {
        // Without positions topk would choose among equal scores of equal words by their rounding.
        if (attention == "topk(3)" && positions == std::string("none")) continue;
        Model model = memory_model(attention, positions, norm, 3);
        const std::vector<at::Tensor> hidden = in_segments(model, texts, 7, 100);
        for (size_t t = 0; t < texts.size(); ++t)
          EXPECT_LT(difference(hidden[t], full_pass(model, texts[t])), kExact)
              << attention << " " << norm << " " << positions << ", text " << t;
      }
    }
  }
}

// Law: memory of m and a segment of n equal the end of a segment of m + n, in a model of one layer.
TEST(Memory, OfSomeTokensIsTheEndOfALongerSegment) {
  const torch::NoGradGuard guard;
  const Texts texts = random_texts({23, 31}, 4);
  for (const std::string& attention : memory_specs()) {
    Model model = memory_model(attention, "rotary", "pre", 1);
    for (const int64_t segment : {4, 7}) {
      for (const int64_t limit : {1, 5, 9}) {
        const std::vector<at::Tensor> hidden = in_segments(model, texts, segment, limit);
        for (size_t t = 0; t < texts.size(); ++t) {
          for (int64_t begin = 0; begin < std::ssize(texts[t]); begin += segment) {
            const int64_t first = std::max<int64_t>(0, begin - limit);
            const int64_t end = std::min(begin + segment, std::ssize(texts[t]));
            const at::Tensor longer = full_pass(model, slice(texts[t], first, end));
            EXPECT_LT(difference(hidden[t].slice(0, begin, end), longer.slice(0, begin - first)), kExact)
                << attention << ", segment " << segment << ", memory " << limit << ", from " << begin;
          }
        }
      }
    }
  }
}

// Law: a reach of r keys within segments of any length is local(r) over the whole text.
TEST(Memory, WithTheSameLengthEverywhereIsAWindow) {
  const torch::NoGradGuard guard;
  const Texts texts = random_texts({29}, 5);
  const std::vector<std::pair<const char*, const char*>> same = {
      {"full", "local(6)"}, {"topk(3)", "local(6)+topk(3)"}, {"strided(2)", "local(6)&strided(2)"}};
  for (const auto& [attention, limited] : same) {
    Model model = memory_model(attention, "rotary", "pre", 2);
    Model window = memory_model(limited, "rotary", "pre", 2);
    model->limit_reach(6);
    EXPECT_LT(difference(in_segments(model, texts, 7, 5)[0], full_pass(window, texts[0])), kExact) << attention;
    model->limit_reach(7);
    EXPECT_GT(difference(in_segments(model, texts, 7, 6)[0], full_pass(window, texts[0])), 1e-3) << attention;
  }
}

// The gradient of a segment's loss ends at its memory: it is that of a pass over given memory.
TEST(Memory, HasNoGradient) {
  Model model = memory_model("full", "rotary", "pre", 2);
  const Texts texts = random_texts({14}, 6);
  const Packed first = packed({slice(texts[0], 0, 7)}), second = packed({slice(texts[0], 7, 14)});
  const auto gradients = [&](bool first_with_graph) {
    model->zero_grad();
    const auto before = std::make_shared<MemoryPass>(Memory::none(1), 7);
    {
      const at::AutoGradMode mode(first_with_graph);
      model->decode({.tokens = first.tokens, .offsets = first.offsets, .memory = before}, {});
    }
    const auto pass = std::make_shared<MemoryPass>(before->take(), 7);
    model->decode({.tokens = second.tokens, .offsets = second.offsets, .memory = pass}, {}).square().sum().backward();
    return model->parameters().front().grad().clone();
  };
  const at::Tensor with = gradients(true), without = gradients(false);
  EXPECT_TRUE(at::equal(with, without));
  EXPECT_GT(with.abs().max().item<double>(), 0.1);
}

TEST(Memory, RecomputedGivesTheSameBitsAndMemory) {
  for (const char* attention : {"topk(3)", "1*local(4);2*routed(3,4,causal)", "own 1*local(4);2*routed(3,4,causal)"}) {
    Model model = memory_model(attention, "rotary", "pre", 3);
    const Texts texts = random_texts({20, 13}, 7);
    const auto gradients = [&](bool recompute) {
      model->zero_grad();
      const std::vector<at::Tensor> hidden = in_segments(model, texts, 5, 6, {.recompute = recompute});
      at::cat(hidden).square().sum().backward();
      std::vector<at::Tensor> all = {at::cat(hidden).detach()};
      for (const at::Tensor& parameter : model->parameters())
        if (parameter.grad().defined()) all.push_back(parameter.grad().clone());
      return all;
    };
    const std::vector<at::Tensor> plain = gradients(false), recomputed = gradients(true);
    ASSERT_EQ(plain.size(), recomputed.size());
    EXPECT_GT(plain.size(), 30);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(plain[i], recomputed[i])) << attention << " " << i;
  }
}

// The tokens of memory are keys of clusters. The centroids and the figures of the log are those of the segment.
TEST(Memory, MovesNoCentroid) {
  DecoderConfig config = tiny_decoder("routed(3,4,causal)");
  config.transformer_positions = "none";
  Model model = make(config);
  const Texts texts = random_texts({14}, 9);
  const auto counts_of = [&](int64_t limit) {
    Memory memory = Memory::none(1);
    PassExtras extras;
    for (int64_t begin = 0; begin < 14; begin += 7) {
      extras = {};
      ForwardContext context{.training = true};
      context.extras = &extras;
      const auto pass = std::make_shared<MemoryPass>(std::move(memory), limit);
      const Packed batch = packed({slice(texts[0], begin, begin + 7)});
      model->decode({.tokens = batch.tokens, .offsets = batch.offsets, .memory = pass}, context);
      memory = pass->take();
    }
    const at::Tensor counts = buffers_of(*model).at("layers.0.self_attention.routing.counts");
    const at::Tensor before = counts.clone();
    extras.sums().apply();
    const at::Tensor moved = counts.clone();
    const torch::NoGradGuard guard;
    counts.copy_(before);
    return moved;
  };
  // The first layer's queries are those of the segment, whatever lies in memory.
  const at::Tensor with = counts_of(7), without = counts_of(0);
  EXPECT_TRUE(with.equal(without));
  EXPECT_LT((with.sum(1) - (0.999 * 3 + 0.001 * 7)).abs().max().item<double>(), 1e-12);
}

// Prompts shorter and longer than a segment, then steps over several boundaries.
TEST(Memory, StepByStepIsThePassOverSegments) {
  const torch::NoGradGuard guard;
  for (const char* positions : {"rotary", "sinusoidal", "learned", "shaw(4)"}) {
    for (const std::string& attention : memory_specs()) {
      if (attention == "topk(3)" && positions != std::string("rotary")) continue;  // equal words, equal scores
      // Clusters depend on the turn of a query, which counts from the memory's beginning in a pass, and in steps not.
      if (attention.find("routed") != std::string::npos && positions == std::string("rotary")) continue;
      for (const StepRows kind : {StepRows::kApart, StepRows::kShared}) {
        Model model = memory_model(attention, positions, "post", 2);
        const int64_t segment = 5, limit = 3;
        Texts rows = random_texts({17, 1, 5, 9}, 8);
        auto state = model->start(std::ssize(rows), model->pack(), kind, {segment, limit});
        const Packed batch = packed(rows);
        at::Tensor hidden = state->prefill(batch.tokens, batch.offsets);
        for (int step = 0; step < 12; ++step) {
          const std::vector<at::Tensor> expected = in_segments(model, rows, segment, limit);
          for (size_t r = 0; r < rows.size(); ++r)
            ASSERT_LT(difference(hidden[static_cast<int64_t>(r)], expected[r][-1]), kExact)
                << attention << " " << positions << ", row " << r << ", step " << step;
          std::vector<int64_t> next;
          for (std::vector<int64_t>& row : rows) {
            row.push_back((row.back() * 7 + step) % 17);
            next.push_back(row.back());
          }
          hidden = state->step(torch::tensor(next, at::kLong));
        }
      }
    }
  }
}

TEST(Memory, MustBeOfTheSameStreams) {
  Model model = memory_model("full", "rotary", "pre", 1);
  const Packed batch = packed({{1, 2}, {3}});
  const auto pass = std::make_shared<MemoryPass>(Memory::none(3), 4);
  EXPECT_THROW(model->decode({.tokens = batch.tokens, .offsets = batch.offsets, .memory = pass}, {}), c10::Error);
}

}  // namespace
}  // namespace fovea::nn::memory_test
