#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fovea/ops/attention.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/index_loss.h"
#include "fovea/ops/index_topk.h"
#include "fovea/ops/optimizers.h"
#include "fovea/ops/rotary.h"
#include "fovea/ops/ssru.h"
#include "fovea/ops/step.h"
#include "fovea/ops/test_private_device.h"

// The operators on a device that is not the CPU: the same values and gradients, and no wait between the checks at the
// beginning and the return.
namespace fovea::ops::device_test {
namespace {

using test_device::kDevice;
using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

at::Tensor normal(at::IntArrayRef shape, at::ScalarType type = at::kDouble) { return at::randn(shape, type); }

Tensors moved(const Tensors& all, const at::Device& device) {
  Tensors there;
  for (const at::Tensor& x : all) {
    there.push_back(x.detach().to(device));
    if (x.requires_grad()) there.back().requires_grad_();
  }
  return there;
}

// The function's outputs and its gradients.
Tensors evaluated(const Function& f, const Tensors& inputs) {
  Tensors all = f(inputs), wanted, outputs, along;
  for (const at::Tensor& x : inputs) {
    if (x.requires_grad()) wanted.push_back(x);
  }
  for (const at::Tensor& y : all) {
    if (!y.requires_grad()) continue;
    outputs.push_back(y);
    const at::Tensor places = at::arange(y.numel(), at::TensorOptions(y.device()).dtype(at::kDouble));
    along.push_back((places * 0.37).cos().view(y.sizes()).to(y.scalar_type()));
  }
  if (wanted.empty() || outputs.empty()) return all;
  const auto grads = torch::autograd::grad(outputs, wanted, along, {}, false, /*allow_unused=*/true);
  all.insert(all.end(), grads.begin(), grads.end());
  return all;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().to(at::kDouble), y = b.detach().to(at::kDouble);
  return ((x - y).norm() / y.norm().clamp_min(1e-30)).item<double>();
}

enum class Waits : uint8_t { kNone, kSome };

// Runs twice on the device: the first call makes the layout of the batch, the second may not wait.
void expect_same_on_device(const Function& f, const Tensors& inputs, double tolerance, Waits waits = Waits::kNone) {
  const Tensors want = evaluated(f, inputs), there = moved(inputs, kDevice);
  Tensors got = evaluated(f, there);
  if (waits == Waits::kNone) {
    const test_device::NoWaits none;
    got = evaluated(f, there);
  }
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
    if (!want[i].defined()) continue;
    EXPECT_EQ(got[i].device(), kDevice) << i;
    EXPECT_LE(difference(got[i], want[i]), tolerance) << i;
  }
}

// With FOVEA_DEVICE_TABLE=FILE, adds a line to it: one of our operators, a tab, and those of PyTorch that ran on the
// device for it since the last line, forward and backward.
void tell_operators(const std::string& name) {
  std::set<std::string> names;
  {
    const std::lock_guard lock(test_device::ran().mutex);
    names.swap(test_device::ran().names);
  }
  EXPECT_FALSE(names.empty()) << name << " ran nothing on the device";
  const char* file = std::getenv("FOVEA_DEVICE_TABLE");
  if (file == nullptr) return;
  std::ofstream out(file, std::ios::app);
  out << name << '\t';
  for (const std::string& own : names) out << ' ' << own.substr(own.rfind(':') + 1);
  out << '\n';
}

constexpr double kDoubleTolerance = 1e-12;  // sums of some dozen products in another order

Tensors with_gradients(Tensors all) {
  for (at::Tensor& x : all) x.requires_grad_();
  return all;
}

Function attention_of(const std::string& spec, AttentionOptions options) {
  return [=](const Tensors& x) { return Tensors{attention(x[0], x[1], x[2], spec, options)}; };
}

// The other tests can find what they look for.
TEST(Device, RefusesMixturesAndWaits) {
  const at::Tensor here = normal({3, 4}), there = here.to(kDevice);
  EXPECT_TRUE(at::equal(there.mul(2).cpu(), here * 2));
  EXPECT_ANY_THROW(there + here);  // PyTorch's own check comes first
  EXPECT_THROW(at::matmul(there, here.t()), Error);
  const test_device::NoWaits none;
  EXPECT_THROW(there.sum().item<double>(), Error);
  EXPECT_THROW(there.cpu(), Error);
  EXPECT_THROW(here.to(kDevice), Error);
  EXPECT_THROW(there.nonzero(), Error);
}

TEST(Device, ComputesEveryMechanism) {
  for (const char* spec : {"full", "window(6)", "window(4)|global(2)", "random(3)", "topk(3)", "topk(2,keep=window(2))",
                           "strided(4)+topk(2)", "sparsemax", "entmax(1.5)", "entmax(1.3)", "entmax(3)", "relu", "gelu",
                           "sigmoid(-2)", "top-p(0.6)", "leaky-relu(0.1)", "2*window(3);2*topk(2)+sparsemax"}) {
    for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
      SCOPED_TRACE(spec);
      AttentionOptions options;
      options.kind = kind, options.dropout = 0.2, options.dropout_seed = 5, options.seed = 3;
      const Tensors x = with_gradients({normal({2, 4, 33, 8}), normal({2, 4, 33, 8}), normal({2, 4, 33, 8})});
      expect_same_on_device(attention_of(spec, options), x, kDoubleTolerance);
    }
    tell_operators(spec);
  }
}

TEST(Device, ComputesEveryLayout) {
  AttentionOptions packed;
  packed.kind = AttentionKind::kCausal, packed.enable_gqa = true;
  packed.q_offsets = at::tensor(std::vector<int64_t>{0, 20, 21, 21, 50});
  const Tensors tokens = with_gradients({normal({50, 6, 8}), normal({50, 2, 8}), normal({50, 2, 8})});
  AttentionOptions padded;
  padded.q_lengths = at::tensor(std::vector<int64_t>{33, 5}), padded.k_lengths = padded.q_lengths;
  const Tensors rows = with_gradients({normal({2, 4, 33, 8}), normal({2, 4, 33, 8}), normal({2, 4, 33, 8})});
  for (const char* spec : {"full", "topk(3)", "window(5)+relu"}) {
    SCOPED_TRACE(spec);
    expect_same_on_device(attention_of(spec, packed), tokens, kDoubleTolerance);
    expect_same_on_device(attention_of(spec, padded), rows, kDoubleTolerance);
  }
}

// Each copy makes the host wait, and a batch of several lengths has many index tensors.
TEST(Device, LaysOutABatchByOneCopy) {
  AttentionOptions options;
  options.kind = AttentionKind::kCausal;
  options.q_offsets = at::tensor(std::vector<int64_t>{0, 17, 19, 60, 63});
  const Tensors x = moved({normal({63, 4, 8}), normal({63, 4, 8}), normal({63, 4, 8})}, kDevice);
  const auto copies = [] { return test_device::wait_counts().by_name["a copy between devices"]; };
  const int64_t before = copies();
  attention(x[0], x[1], x[2], "window(5)|global(2)", options);
  EXPECT_EQ(copies() - before, 1);
  attention(x[0], x[1], x[2], "window(5)|global(2)", options);
  EXPECT_EQ(copies() - before, 1);
}

TEST(Device, ComputesLearnedAlphaNormsAndTerms) {
  const Function alpha = [](const Tensors& x) {
    AttentionOptions options;
    options.alpha = x[3];
    return Tensors{attention(x[0], x[1], x[2], "entmax(learned)", options)};
  };
  const auto qkv = [] { return Tensors{normal({2, 4, 21, 8}), normal({2, 4, 21, 8}), normal({2, 4, 21, 8})}; };
  const auto with = [&](const Tensors& more) {
    Tensors all = qkv();
    all.insert(all.end(), more.begin(), more.end());
    return with_gradients(all);
  };
  expect_same_on_device(alpha, with({at::rand({4}, at::kDouble) + 1.2}), 1e-9);
  const Function norm = [](const Tensors& x) {
    AttentionOptions options;
    options.gate = x[3];
    return Tensors{attention(x[0], x[1], x[2], "rela-g", options)};
  };
  expect_same_on_device(norm, with({normal({32})}), kDoubleTolerance);
  const Function terms = [](const Tensors& x) {
    AttentionOptions options;
    options.offsets.by_head = x[3], options.offsets.by_head_first = -4;
    options.offsets.by_query = x[4], options.offsets.by_query_first = -2;
    options.offsets.queries = x[5], options.offsets.rows = x[6], options.offsets.rows_first = -3;
    options.offsets.values = x[7], options.offsets.values_first = -3;
    return Tensors{attention(x[0], x[1], x[2], "topk(4)", options)};
  };
  expect_same_on_device(
      terms, with({normal({4, 9}), normal({2, 4, 21, 5}), normal({2, 4, 21, 8}), normal({7, 4, 8}), normal({7, 1, 8})}),
      kDoubleTolerance);
}

// On the CPU these are the kernels, in float32.
constexpr double kFloatTolerance = 2e-5;

TEST(Device, IsAsGoodAsTheKernelsOfAttention) {
  AttentionOptions options;
  options.kind = AttentionKind::kCausal, options.dropout = 0.1, options.dropout_seed = 9;
  for (const char* spec : {"full", "topk(8)", "window(40)", "sparsemax", "entmax(1.5)", "relu"}) {
    SCOPED_TRACE(spec);
    const auto x = [] { return normal({1, 2, 300, 16}, at::kFloat); };
    expect_same_on_device(attention_of(spec, options), with_gradients({x(), x(), x()}), kFloatTolerance);
  }
}

TEST(Device, ReadsGivenLists) {
  for (const bool by_block : {false, true}) {
    const Function f = [=](const Tensors& x) {
      AttentionOptions options;
      options.kind = AttentionKind::kCausal, options.enable_gqa = true;
      options.pairs = {.lists = x[3], .block = by_block ? 4 : 1, .by_head = by_block};
      return Tensors{attention(x[0], x[1], x[2], "full", options)};
    };
    at::Tensor lists = at::full({2, 21, 3}, -1, at::kInt);
    lists.select(2, 1).fill_(0);
    if (by_block) lists = lists.unsqueeze(1).expand({2, 2, 21, 3}).contiguous();
    Tensors x = with_gradients({normal({2, 6, 21, 8}), normal({2, 2, 21, 8}), normal({2, 2, 21, 8})});
    x.push_back(lists);
    // Their check at the beginning reads the lists.
    expect_same_on_device(f, x, kDoubleTolerance, Waits::kSome);
  }
}

// A value that is not finite reaches the queries that weigh its key, and no others.
TEST(Device, KeepsNotFiniteValuesApart) {
  Tensors x{normal({1, 2, 30, 4}), normal({1, 2, 30, 4}), normal({1, 2, 30, 4})};
  x[1].select(2, 5).mul_(5);  // a key that some queries select
  x[2].select(2, 5).select(2, 1).fill_(std::numeric_limits<double>::infinity());
  for (const char* spec : {"window(4)", "topk(3)"}) {
    const at::Tensor want = attention(x[0], x[1], x[2], spec, {});
    const Tensors there = moved(x, kDevice);
    const at::Tensor got = attention(there[0], there[1], there[2], spec, {}).cpu();
    EXPECT_TRUE(at::equal(at::isfinite(got), at::isfinite(want))) << spec;
    EXPECT_FALSE(at::isfinite(got).all().item<bool>());
  }
}

TEST(Device, ComputesRoutedHeads) {
  AttentionOptions options;
  options.seed = 3;
  const auto x = [] { return normal({1, 4, 33, 8}); };
  // Clusters are chosen on the CPU.
  expect_same_on_device(attention_of("routed(3,8,random)", options), with_gradients({x(), x(), x()}), kDoubleTolerance,
                        Waits::kSome);
}

TEST(Device, ComputesTheIndexerLoss) {
  at::Tensor keys = at::stack({at::arange(9, at::kInt), at::full({9}, -1, at::kInt)}, 1);
  const Tensors inputs{normal({2, 2, 9, 8}, at::kFloat), normal({2, 2, 9, 8}, at::kFloat),
                       keys.unsqueeze(0).expand({2, 9, 2}).contiguous()};
  // The check at the beginning reads the greatest index.
  expect_same_on_device([](const Tensors& x) { return Tensors{index_target(x[0], x[1], x[2])}; }, inputs,
                        kFloatTolerance, Waits::kSome);
}

TEST(Device, ComputesTheStepOperators) {
  const auto x = [](at::IntArrayRef shape) { return normal(shape, at::kFloat); };
  const at::Tensor ids = at::tensor(std::vector<int64_t>{3, 0, 6, -1, 2}), places = at::arange(5, at::kLong);
  const at::Tensor targets = ids.clamp_min(0);
  const struct {
    const char* name;
    Function f;
    Tensors inputs;
    Waits waits = Waits::kNone;
  } all[] = {
      {"linear",
       [](const Tensors& t) { return Tensors{linear(t[0], t[1], t[2], Activation::kGelu)}; },
       {x({5, 8}), x({7, 8}), x({7})}},
      {"dropout", [](const Tensors& t) { return Tensors{dropout(t[0], {.rate = 0.3, .seed = 4})}; }, {x({5, 8})}},
      {"add_norm",
       [](const Tensors& t) {
         const auto [sum, norm] = add_norm(t[0], t[1], t[2], t[3], {.rate = 0.2, .seed = 3});
         return Tensors{sum, norm};
       },
       {x({5, 8}), x({5, 8}), x({8}), x({8})}},
      {"add_rms_norm",
       [](const Tensors& t) {
         const auto [sum, norm] = add_rms_norm(t[0], t[1], t[2], {.rate = 0.2, .seed = 3});
         return Tensors{sum, norm};
       },
       {x({5, 8}), x({5, 8}), x({8})}},
      {"gated",
       [](const Tensors& t) { return Tensors{gated(t[0], Activation::kSilu, {.rate = 0.2, .seed = 3})}; },
       {x({5, 8})}},
      {"layer_norm",
       [](const Tensors& t) { return Tensors{layer_norm(t[0], t[1], t[2])}; },
       {x({5, 8}), x({8}), x({8})}},
      {"rms_norm", [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1])}; }, {x({5, 8}), x({8})}},
      {"rotary_heads",
       [=](const Tensors& t) {
         const RotaryHeads turned = rotary_heads(t[0] * 1, 4, places);
         return Tensors{turned.q, turned.k, turned.v};
       },
       {x({5, 8, 6})},
       Waits::kSome},
      {"ssru",
       [](const Tensors& t) {
         return Tensors{ssru(t[0], at::tensor(std::vector<int64_t>{0, 2, 2, 5}))};
       },
       {x({5, 16})},
       Waits::kSome},
      {"ssru_step",
       [](const Tensors& t) {
         at::Tensor states = t[1].detach().clone();
         return Tensors{ssru_step(t[0].detach(), states), states};
       },
       {x({5, 16}), x({5, 8})}},
      {"l2_norms",
       [](const Tensors& t) {
         std::vector<double> norms = l2_norms(t);
         norms.push_back(l2_norm(t[0]));
         return Tensors{at::tensor(norms).to(t[0].device())};
       },
       {x({5, 8}), x({3})},
       Waits::kSome},
      {"rotary", [=](const Tensors& t) { return Tensors{rotary(t[0], places)}; }, {x({5, 2, 8})}, Waits::kSome},
      // Tokens and targets lie on the CPU, and each call copies them.
      {"embed",
       [=](const Tensors& t) { return Tensors{embed(ids, places, t[0], t[1], 2.0, {.rate = 0.2, .seed = 3})}; },
       {x({7, 8}), x({9, 8})},
       Waits::kSome},
      {"cross_entropy",
       [=](const Tensors& t) {
         const CrossEntropy loss = cross_entropy(t[0], {t[1], t[2]}, targets, 0.1);
         return Tensors{loss.loss, loss.nll};
       },
       {x({5, 8}), x({7, 8}), x({7})},
       Waits::kSome},
      {"token_scores",
       [=](const Tensors& t) {
         const TokenScores scores = token_scores(t[0], {t[1], t[2]}, targets);
         return Tensors{scores.nll, scores.best};
       },
       {x({5, 8}), x({7, 8}), x({7})},
       Waits::kSome},
      {"index_topk",
       [](const Tensors& t) { return Tensors{index_topk(t[0], t[1], t[2], 3)}; },
       {x({9, 2, 8}), x({9, 8}), x({9, 2})}},
  };
  for (const auto& [name, f, inputs, waits] : all) {
    SCOPED_TRACE(name);
    test_device::ran().names.clear();
    expect_same_on_device(f, with_gradients(inputs), kFloatTolerance, waits);
    tell_operators(name);
  }
}

TEST(Device, ComputesTheOptimizers) {
  const Function adam = [](const Tensors& x) {
    const AdamState state{x[0].detach().clone(), x[1].detach().clone(), x[2].detach().square(), {}};
    adam_step(state, x[3], {.weight_decay = 0.1, .step = 3, .grad_scale = 0.5});
    return Tensors{state.params, state.mean, state.variance};
  };
  const Function adagrad = [](const Tensors& x) {
    const AdagradState state{x[0].detach().clone(), x[2].detach().square(), {}};
    adagrad_step(state, x[3], {});
    return Tensors{state.params, state.sum};
  };
  const Function adafactor = [](const Tensors& x) {
    const AdafactorParameter state =
        adafactor_parameter(x[0].detach().clone().view({5, 8}), x[3].view({5, 8}), at::Tensor());
    adafactor_step(std::span(&state, 1), {.relative_step = true});
    return Tensors{state.params, state.row, state.column};
  };
  const auto x = [] { return normal({40}, at::kFloat); };
  const Tensors inputs{x(), x(), x(), x()};
  expect_same_on_device(adafactor, inputs, kFloatTolerance);
  expect_same_on_device(adam, inputs, kFloatTolerance);
  expect_same_on_device(adagrad, inputs, kFloatTolerance);
}

}  // namespace
}  // namespace fovea::ops::device_test
