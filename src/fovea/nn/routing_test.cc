#include "fovea/nn/routing.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "fovea/base/test_message.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/test_gradients.h"

namespace fovea::nn::routing_test {
namespace {

using namespace testing;

// The moving averages as published, number by number.
struct PlainMeans {
  std::vector<double> counts, means, centroids;
  int64_t width;

  void update(const std::vector<double>& count, const std::vector<double>& sum) {
    const auto clusters = static_cast<double>(counts.size());
    double total = 0;
    for (size_t c = 0; c < counts.size(); ++c) total += counts[c] = 0.999 * counts[c] + 0.001 * count[c];
    for (size_t i = 0; i < means.size(); ++i) means[i] = 0.999 * means[i] + 0.001 * sum[i];
    for (size_t i = 0; i < means.size(); ++i) {
      const double smoothed = (counts[i / static_cast<size_t>(width)] + 1e-5) / (total + clusters * 1e-5) * total;
      centroids[i] = means[i] / smoothed;
    }
  }
};

std::vector<double> numbers_in(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

TEST(RoutingModule, MovingAveragesAreThePublishedOnes) {
  for (const std::string start : {"fixed", "faithful"}) {
    SCOPED_TRACE(start);
    RoutingConfig config;
    config.routing_start = start;
    Routing routing(parse_layer_spec("1*routed(4,3)"), 5, config, InitScope(1));
    routing.to(at::kDouble);
    const at::Tensor first = routing.centroids()[0].clone();
    EXPECT_LT((first.square().sum(1) - 5).abs().max().item<double>(), 1e-4);  // of the norm sqrt(D)
    PlainMeans plain{std::vector<double>(4, start == "fixed" ? 1 : 0), numbers_in(first), numbers_in(first), 5};
    for (uint64_t step = 0; step < 20; ++step) {
      const at::Tensor counts = torch::tensor({3.0, static_cast<double>(step % 3), 0.0, 8.0}, at::kDouble);
      const at::Tensor sums = random_like(torch::empty({4, 5}), step);
      routing.update(0, counts.unsqueeze(0), sums.unsqueeze(0));
      plain.update(numbers_in(counts), numbers_in(sums));
      const std::vector<double> own = numbers_in(routing.centroids());
      for (size_t i = 0; i < own.size(); ++i)
        ASSERT_NEAR(own[i], plain.centroids[i], 1e-12 * (1 + std::abs(plain.centroids[i]))) << "step " << step;
    }
    // The published start gives a cluster without tokens a centroid of 1e5 times the norm.
    EXPECT_EQ(routing.centroids().abs().max().item<double>() > 1000, start == "faithful");
  }
}

TEST(RoutingModule, GroupsOfOtherClustersHaveTheirOwnAverages) {
  Routing routing(parse_layer_spec("2*routed(2,3);1*local(2);1*routed(3,3,causal)"), 4, {}, InitScope(1));
  EXPECT_EQ(routing.clusters(), (std::vector<int64_t>{2, 2, 3}));
  EXPECT_EQ(routing.centroids().sizes(), (std::vector<int64_t>{3, 3, 4}));
  const at::Tensor before = routing.centroids().clone();
  routing.update(2, torch::ones({1, 3}), torch::ones({1, 3, 4}));
  EXPECT_TRUE(routing.centroids().narrow(0, 0, 2).equal(before.narrow(0, 0, 2)));
  EXPECT_FALSE(routing.centroids()[2].equal(before[2]));
}

Packed routing_text() { return random_batch({9, 14}, 17, 3); }

TEST(RoutingModule, BuffersAreNamedAndDrawnBySeed) {
  Model model(tiny_decoder("1*local(3);2*routed(3,4)"), 3), same(tiny_decoder("1*local(3);2*routed(3,4)"), 3);
  const NamedTensors buffers = buffers_of(*model);
  std::vector<std::string> names;
  for (const auto& [name, buffer] : buffers) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "layers.0.self_attention.routing.centroids", "layers.0.self_attention.routing.counts",
                       "layers.0.self_attention.routing.means", "layers.1.self_attention.routing.centroids",
                       "layers.1.self_attention.routing.counts", "layers.1.self_attention.routing.means"}));
  const at::Tensor& first = buffers.at(names[0]);
  EXPECT_EQ(first.sizes(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_TRUE(first.equal(buffers_of(*same).at(names[0])));
  EXPECT_FALSE(first.equal(buffers.at(names[3])));
  EXPECT_TRUE(buffers_of(*Model(tiny_decoder("routed(3,4,random)"), 3)).empty());
}

// The loss of a pass with its extra term, as training adds it.
at::Tensor loss_with_extras(Model& model, ForwardContext context, PassExtras& extras) {
  context.training = true;
  context.extras = &extras;
  const at::Tensor loss = loss_of(model, routing_text(), context);
  return extras.loss().defined() ? loss + 23 * extras.loss() : loss;
}

DecoderConfig committed(const std::string& attention) {
  DecoderConfig config = tiny_decoder(attention);
  config.routing_commitment = 0.7;
  return config;
}

TEST(RoutingModule, GradientsOfAModelWithItsCommitment) {
  for (const char* attention :
       {"routed(3,4)", "routed(3,4,causal)+topk(2)", "1*local(3);2*routed(2,30)", "routed(3,4,random)"}) {
    for (const char* keys : {"shared", "own"}) {
      SCOPED_TRACE(cat(attention, keys));
      DecoderConfig config = committed(attention);
      config.routing_keys = keys;
      Model model = make(config);
      check_gradients(*model, [&] {
        PassExtras extras;
        return loss_with_extras(model, {}, extras);
      });
    }
  }
}

TEST(RoutingModule, RecomputedLayersGiveTheSameGradientsAndCountOnce) {
  Model model = make(committed("1*local(3);2*routed(3,4)"), at::kFloat);
  PassExtras kept, recomputed;
  const auto expected = gradients_of(*model, loss_with_extras(model, {}, kept));
  const auto own = gradients_of(*model, loss_with_extras(model, {.recompute = true}, recomputed));
  for (const auto& [name, gradient] : expected) EXPECT_TRUE(gradient.equal(own.at(name))) << name;
  EXPECT_EQ(kept.notes(), recomputed.notes());
  const auto after = [&](const PassExtras& extras) {
    const at::Tensor centroids = buffers_of(*model).at("layers.0.self_attention.routing.centroids");
    NamedTensors before;
    for (const auto& [name, buffer] : buffers_of(*model)) before[name] = buffer.clone();
    extras.sums().apply();
    const at::Tensor moved = centroids.clone();
    const torch::NoGradGuard no_grad;
    for (auto& [name, buffer] : buffers_of(*model)) buffer.copy_(before.at(name));
    return moved;
  };
  EXPECT_TRUE(after(kept).equal(after(recomputed)));
}

TEST(RoutingModule, PassesOfAnUpdateAddUpAndMoveTheCentroidsOnce) {
  Model model = make(tiny_decoder("routed(3,4)"), at::kFloat);
  UpdateSums sums;
  for (const uint64_t seed : {1, 2}) {
    PassExtras extras;
    ForwardContext context{.training = true};
    context.extras = &extras;
    loss_of(model, random_batch({9, 14}, 17, seed), context);
    sums.add(extras.sums());
  }
  const at::Tensor counts = buffers_of(*model).at("layers.1.self_attention.routing.counts");
  sums.apply();
  // The counts start at 1 for each of three clusters; the 46 tokens in all were added once.
  EXPECT_LT((counts.sum(1) - (0.999 * 3 + 0.001 * 46)).abs().max().item<double>(), 1e-5);
}

TEST(RoutingModule, EvaluationLeavesFiguresAlone) {
  Model model = make(tiny_decoder("routed(3,4)"), at::kFloat);
  PassExtras extras;
  ForwardContext context;
  context.extras = &extras;
  loss_of(model, routing_text(), context);
  EXPECT_FALSE(extras.loss().defined());
  const at::Tensor before = buffers_of(*model).at("layers.0.self_attention.routing.centroids").clone();
  extras.sums().apply();
  EXPECT_TRUE(buffers_of(*model).at("layers.0.self_attention.routing.centroids").equal(before));
  std::vector<std::string_view> names;
  for (const auto& [name, value] : extras.notes()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"routing-commitment", "routing-largest", "routing-none",
                                                  "routing-several", "routing-smallest"}));
}

TEST(RoutingModule, ObserversSeeTheClustersThatTheWeightsComeFrom) {
  Model model = make(tiny_decoder("1*local(3);2*routed(3,4)"), at::kFloat);
  int64_t attentions = 0;
  const AttentionObserver observer(AttentionObserver::SeeCall([&](const SeenAttention& call) {
    const std::vector<ops::RoutedRows>& seen = call.routed;
    const at::Tensor weights_BHQK = call.dense();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].first_head, 1);
    EXPECT_EQ(seen[0].heads, 2);
    EXPECT_EQ(seen[0].num_clusters, 3);
    for (int64_t list = 0; list < 6; ++list) {
      const auto begin = seen[0].queries.offsets[static_cast<size_t>(list)],
                 end = seen[0].queries.offsets[static_cast<size_t>(list) + 1];
      EXPECT_EQ(end - begin, 4);  // each cluster takes four tokens of the nine
    }
    // A query gives weight to the keys with which it shares a cluster, up to itself.
    at::Tensor together = at::zeros({2, 9, 9}, at::kBool);
    for (int64_t list = 0; list < 6; ++list) {
      for (auto i = seen[0].queries.offsets[static_cast<size_t>(list)];
           i < seen[0].queries.offsets[static_cast<size_t>(list) + 1]; ++i) {
        for (auto j = seen[0].queries.offsets[static_cast<size_t>(list)]; j <= i; ++j)
          together[list / 3][seen[0].queries.rows[static_cast<size_t>(i)] / 2]
                  [seen[0].queries.rows[static_cast<size_t>(j)] / 2] = true;
      }
    }
    EXPECT_TRUE(weights_BHQK[0].narrow(0, 1, 2).gt(0).equal(together));
    ++attentions;
  }));
  const torch::NoGradGuard no_grad;
  loss_of(model, random_batch({9}, 17, 3), {});
  EXPECT_EQ(attentions, 2);
}

TEST(RoutingModule, OtherClustersAreRefused) {
  Model model = make(tiny_decoder("routed(3,4)"));
  EXPECT_EQ(message_of([&] { model->override_attention({.attention = "routed(2,4)"}); }),
            "--attention 3*routed(2,4): it needs centroids of its clusters, which this model (trained with "
            "3*routed(3,4)) does not have; use a mechanism without it, or train one with it");
  EXPECT_NO_THROW(model->override_attention({.attention = "routed(3,9)+topk(2)"}));
  EXPECT_NO_THROW(model->override_attention({.attention = "routed(3,9,causal)"}));
  EXPECT_NO_THROW(model->override_attention({.attention = "full"}));

  const NamedTensors saved = [&] {
    NamedTensors all = parameters_of(*model);
    all.merge(buffers_of(*model));
    return all;
  }();
  Model other(tiny_decoder("routed(5,4)"), std::nullopt);
  const std::string message = message_of([&] { load_parameters(*other, saved, "run"); });
  EXPECT_NE(message.find("run: tensor 'layers.0.self_attention.routing.centroids' has the shape [3, 3, 4], the model "
                         "needs [3, 5, 4]"),
            std::string::npos)
      << message;
}

// A checkpoint's configuration may ask for any sizes.
TEST(RoutingModule, ABlankModelTakesNoMemory) {
  Model blank(tiny_decoder("routed(20000000,1)"), std::nullopt);
  NamedTensors all = parameters_of(*blank);
  all.merge(buffers_of(*blank));
  EXPECT_EQ(all.at("layers.0.self_attention.routing.means").sizes(), (std::vector<int64_t>{3, 20000000, 4}));
  for (const auto& [name, tensor] : all) EXPECT_EQ(tensor.storage().nbytes(), sizeof(float)) << name;

  // Loaded tensors share no memory with blank ones, nor with one another.
  Model model = make(tiny_decoder("routed(2,4)")), loaded(tiny_decoder("routed(2,4)"), std::nullopt);
  NamedTensors saved = parameters_of(*model);
  saved.merge(buffers_of(*model));
  load_parameters(*loaded, saved, "run");
  NamedTensors now = parameters_of(*loaded);
  now.merge(buffers_of(*loaded));
  for (const auto& [name, tensor] : saved) EXPECT_TRUE(now.at(name).equal(tensor.to(at::kFloat))) << name;
}

// A prompt and some steps, in which rows change their places, give the last states of full passes over the tokens so
// far.
void expect_steps_of_full_passes(Model& model) {
  for (const StepRows kind : {StepRows::kApart, StepRows::kShared}) {
    auto state = model->start(2, model->pack(), kind);
    std::vector<std::vector<int64_t>> texts = {{3, 1, 4, 1, 5, 9, 2}, {5}};
    const Packed batch = packed(texts);
    at::Tensor hidden = state->prefill(batch.tokens, batch.offsets);
    EXPECT_LT((hidden - last_states(model, texts)).abs().max().item<double>(), 1e-11);
    for (const int64_t token : {9, 2, 6, 5, 3, 5, 8}) {
      if (token == 6) {
        state->reorder({1, 0, 1});
        texts = {texts[1], texts[0], texts[1]};
      }
      std::vector<int64_t> next;
      for (auto& text : texts) next.push_back((token + std::ssize(next)) % 17), text.push_back(next.back());
      hidden = state->step(torch::tensor(next, at::kLong));
      EXPECT_LT((hidden - last_states(model, texts)).abs().max().item<double>(), 1e-11);
    }
  }
}

// Without earlier layers the state of a token depends on the members of now alone, so the published form steps as a
// full pass over the tokens so far.
TEST(RoutingModule, OneLayerStepsAsItsFullPass) {
  for (const char* attention :
       {"routed(2,3)", "routed(3,2)+topk(2)", "1*local(2);2*routed(2,4,random)", "routed(2,100)"}) {
    for (const std::string option : {"keep", "last", "never", "own"}) {
      SCOPED_TRACE(attention + option);
      DecoderConfig config = tiny_decoder(attention);
      config.dec_depth = 1;
      if (option == "own") {
        config.routing_keys = option;
      } else {
        config.routing_self = option;
      }
      Model model = make(config);
      expect_steps_of_full_passes(model);
    }
  }
}

// Strictly causal clusters, with keys that are the queries or not, step as they train through any number of layers.
TEST(RoutingModule, CausalClustersStepAsTheirFullPass) {
  for (const char* attention :
       {"routed(2,3,causal)", "1*local(2);2*routed(3,2,causal)+topk(2)",
        "2*routed(2,4,causal)+entmax(learned);1*routed(3,1,causal)", "2*routed(2,4,causal)+sink;1*routed(3,1,causal)",
        "2*routed(2,4,causal)+softcap(0.5);1*routed(3,1,causal)"}) {
    for (const char* keys : {"shared", "own"}) {
      SCOPED_TRACE(cat(attention, keys));
      DecoderConfig config = tiny_decoder(attention);
      config.routing_keys = keys;
      Model model = make(config);
      expect_steps_of_full_passes(model);
    }
  }
}

// Encoder and cross-attention choose keys of their own among all of the source.
TEST(RoutingModule, CrossAttentionStepsAsItsFullPass) {
  for (const char* cross : {"routed(2,3)", "routed(3,2)+topk(2)", "1*full;2*routed(2,4,random)",
                            "1*random(2);2*routed(2,3)+entmax(learned)", "1*random(2);2*routed(2,3)+sink",
                            "1*softcap(0.5);2*routed(2,3)+softcap(0.5)"}) {
    SCOPED_TRACE(cross);
    ModelConfig config = tiny("full");
    config.dec_depth = 1;
    config.attention_encoder = "routed(3,4)";
    config.attention_cross = cross;
    Model model = make(config);
    const Packed source = random_batch({7, 4}, 17, 1), target = random_batch({6, 6}, 19, 2);
    const at::Tensor right = full_pass(model, source, target);
    const torch::NoGradGuard guard;
    const at::Tensor memory = model->encode({source.tokens, source.offsets}, {});
    auto state = model->start({memory, source.offsets}, {0, 1}, model->pack(ops::PrepackedLayer::Format::kExact));
    for (int64_t i = 0; i < 6; ++i) {
      const at::Tensor hidden = state->step(torch::stack({target.tokens[i], target.tokens[6 + i]}));
      // Members among the tokens so far are those of the whole target at its end alone.
      if (i == 5) {
        EXPECT_LT((hidden[0] - right[5]).abs().max().item<double>(), 1e-11);
        EXPECT_LT((hidden[1] - right[11]).abs().max().item<double>(), 1e-11);
      }
    }
  }
}

}  // namespace
}  // namespace fovea::nn::routing_test
