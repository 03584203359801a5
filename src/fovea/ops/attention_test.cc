#include "fovea/ops/attention.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/attention/testing/oracle.h"

// Layers of several head groups, whose heads lie in the same tensors: each head against the oracle, which computes one
// head of one sequence and shares no code with kernels or reference.
namespace fovea::ops::attention_test {
namespace {

constexpr int64_t kWidth = 10, kOffsets = 7, kFirstOffset = -4;
constexpr uint64_t kSeed = 5;
constexpr int64_t kLayer = 2;

enum class Terms : uint8_t { kNone, kByHead, kAll, kSharedRows };

struct LayerCase {
  std::string spec;
  int64_t heads = 6, key_heads = 6;
  AttentionKind kind = AttentionKind::kSelf;
  bool dense = false;
  Terms terms = Terms::kNone;
  bool learns = false;
};
std::ostream& operator<<(std::ostream& to, const LayerCase& c) {
  return to << c.spec << ' ' << c.heads << '/' << c.key_heads << ' ' << name_of(c.kind)
            << (c.dense ? " dense" : " packed") << " terms " << static_cast<int>(c.terms);
}

// Lengths of the sequences; dense batches pad them to the greatest.
const std::vector<int64_t> kLengths = {9, 1, 13};
constexpr int64_t kMost = 13;

// The inputs in the order of `differentiable`: q, k, v, then alpha and the terms that the case has.
struct Inputs {
  at::Tensor q, k, v, alpha, by_head, by_query, queries, rows;
  std::vector<at::Tensor> all() const {
    std::vector<at::Tensor> out;
    for (const at::Tensor& x : {q, k, v, alpha, by_head, by_query, queries, rows}) {
      if (x.defined()) out.push_back(x);
    }
    return out;
  }
};

at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes, at::kFloat).to(at::kDouble); }

Inputs inputs_of(const LayerCase& c) {
  at::manual_seed(11);
  int64_t tokens = 0;
  for (const int64_t length : kLengths) tokens += length;
  const auto tensor = [&](int64_t heads, int64_t width) {
    return c.dense ? drawn({std::ssize(kLengths), heads, kMost, width}) : drawn({tokens, heads, width});
  };
  Inputs x{tensor(c.heads, kWidth), tensor(c.key_heads, kWidth), tensor(c.key_heads, kWidth), {}, {}, {}, {}, {}};
  if (c.learns) x.alpha = at::rand({c.heads}, at::kFloat).to(at::kDouble) * 0.75 + 1.25;
  if (c.terms == Terms::kNone) return x;
  x.by_head = drawn({c.heads, kOffsets});
  if (c.terms == Terms::kByHead) return x;
  x.by_query = tensor(c.heads, kOffsets), x.queries = tensor(c.heads, kWidth);
  x.rows = drawn({kOffsets, c.terms == Terms::kSharedRows ? 1 : c.heads, kWidth});
  return x;
}

AttentionOptions options_of(const LayerCase& c, const Inputs& x) {
  AttentionOptions options;
  options.kind = c.kind, options.seed = kSeed, options.layer = kLayer, options.enable_gqa = c.key_heads < c.heads;
  std::vector<int64_t> offsets{0};
  for (const int64_t length : kLengths) offsets.push_back(offsets.back() + length);
  if (c.dense) {
    options.q_lengths = options.k_lengths = at::tensor(kLengths, at::kLong);
  } else {
    options.q_offsets = options.k_offsets = at::tensor(offsets, at::kLong);
  }
  const AttentionParameters reads = parameters_of(parse_layer_spec(c.spec));
  if (reads.alpha) options.alpha = x.alpha;
  if (reads.sinks) options.sinks = x.alpha;
  options.offsets.by_head = x.by_head, options.offsets.by_query = x.by_query;
  options.offsets.queries = x.queries, options.offsets.rows = x.rows;
  options.offsets.by_head_first = options.offsets.by_query_first = options.offsets.rows_first = kFirstOffset;
  return options;
}

// The rows [length, ...] of a head in a sequence: a view.
at::Tensor rows_of(const LayerCase& c, const at::Tensor& x, size_t sequence, int64_t head) {
  if (c.dense) return x[static_cast<int64_t>(sequence)][head].narrow(0, 0, kLengths[sequence]);
  int64_t first = 0;
  for (size_t s = 0; s < sequence; ++s) first += kLengths[s];
  return x.narrow(0, first, kLengths[sequence]).select(1, head);
}

std::vector<double> values_of(const at::Tensor& x) {
  const at::Tensor own = x.detach().contiguous();
  return {own.const_data_ptr<double>(), own.const_data_ptr<double>() + own.numel()};
}
void add_to(const at::Tensor& x, const std::vector<double>& values) {
  if (!values.empty()) x.add_(at::tensor(values, at::kDouble).view(x.sizes()));
}

struct Expected {
  at::Tensor out;
  std::vector<at::Tensor> grads;
};

kernels::OracleInput oracle_input(const LayerCase& c, const Inputs& x, size_t sequence, int64_t head) {
  const std::shared_ptr<const AttentionLayer> layer = resolved_layer(c.spec, c.heads);
  kernels::OracleInput in;
  int64_t first = 0;
  for (const AttentionLayer::Group& group : layer->groups) {
    if (head >= first) in.spec = group.spec;
    first += group.num_heads;
  }
  const int64_t key_head = head / (c.heads / c.key_heads);
  in.kind = c.kind, in.num_queries = in.num_keys = kLengths[sequence], in.head_dim = kWidth;
  in.q = values_of(rows_of(c, x.q, sequence, head)), in.k = values_of(rows_of(c, x.k, sequence, key_head));
  in.v = values_of(rows_of(c, x.v, sequence, key_head));
  in.scale = 1 / std::sqrt(static_cast<double>(kWidth));
  in.stream = kernels::pattern_stream(kSeed, kLayer, head);
  if (x.alpha.defined()) in.alpha = x.alpha[head].item<double>();
  if (x.by_head.defined()) in.terms.by_head = {kFirstOffset, kOffsets, values_of(x.by_head[head])};
  if (x.by_query.defined()) {
    in.terms.by_query = {kFirstOffset, kOffsets, values_of(rows_of(c, x.by_query, sequence, head))};
    in.terms.queries = values_of(rows_of(c, x.queries, sequence, head));
    in.terms.rows = {kFirstOffset, kOffsets, values_of(x.rows.select(1, x.rows.size(1) == 1 ? 0 : head))};
  }
  return in;
}

// By the oracle, head by head; `grad` is the gradient of the output.
Expected expected_of(const LayerCase& c, const Inputs& x, const at::Tensor& grad) {
  Inputs sums = x;
  for (at::Tensor* t :
       {&sums.q, &sums.k, &sums.v, &sums.alpha, &sums.by_head, &sums.by_query, &sums.queries, &sums.rows}) {
    if (t->defined()) *t = at::zeros_like(*t);
  }
  Expected out{at::zeros_like(x.q), {}};
  for (size_t s = 0; s < kLengths.size(); ++s) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t key_head = h / (c.heads / c.key_heads);
      const kernels::OracleInput in = oracle_input(c, x, s, h);
      const kernels::OracleOutput head = kernels::oracle_forward(in);
      add_to(rows_of(c, out.out, s, h), head.out);
      const kernels::OracleGradients g = oracle_backward(in, head, values_of(rows_of(c, grad, s, h)));
      add_to(rows_of(c, sums.q, s, h), g.q), add_to(rows_of(c, sums.k, s, key_head), g.k);
      add_to(rows_of(c, sums.v, s, key_head), g.v);
      if (x.alpha.defined()) sums.alpha[h] += g.alpha;
      if (x.by_head.defined()) add_to(sums.by_head[h], g.by_head);
      if (!x.by_query.defined()) continue;
      add_to(rows_of(c, sums.by_query, s, h), g.by_query), add_to(rows_of(c, sums.queries, s, h), g.queries);
      add_to(sums.rows.select(1, x.rows.size(1) == 1 ? 0 : h), g.rows);
    }
  }
  out.grads = sums.all();
  return out;
}

Inputs in_type(const Inputs& x, at::ScalarType type) {
  Inputs own = x;
  for (at::Tensor* t : {&own.q, &own.k, &own.v, &own.queries, &own.rows}) {
    if (t->defined()) *t = t->to(type).requires_grad_();
  }
  const at::ScalarType of_tables = type == at::kDouble ? at::kDouble : at::kFloat;
  for (at::Tensor* t : {&own.alpha, &own.by_head, &own.by_query}) {
    if (t->defined()) *t = t->to(of_tables).requires_grad_();
  }
  return own;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a.detach().to(at::kDouble) - b).norm() / (b.norm() + 1e-30)).item<double>();
}

void expect_oracle(const LayerCase& c, at::ScalarType type, double tolerance) {
  const Inputs given = inputs_of(c), own = in_type(given, type);
  const at::Tensor out = attention(own.q, own.k, own.v, c.spec, options_of(c, own));
  const at::Tensor grad = drawn(out.sizes());
  const Expected want = expected_of(c, given, grad);
  EXPECT_LE(difference(out, want.out), tolerance) << c << ' ' << type;
  const auto grads = torch::autograd::grad({out}, own.all(), {grad.to(type)});
  ASSERT_EQ(grads.size(), want.grads.size());
  for (size_t i = 0; i < grads.size(); ++i)
    EXPECT_LE(difference(grads[i], want.grads[i]), 4 * tolerance) << c << ' ' << type << " gradient " << i;
}

const std::vector<LayerCase> kCases = {
    {.spec = "2*topk(3);1*local(4);3*full"},
    {.spec = "2*topk(3);1*local(4);3*sparsemax", .kind = AttentionKind::kCausal, .dense = true},
    {.spec = "2*window(3)+topk(2);1*random(3);3*relu", .dense = true},
    {.spec = "1*topk(3);4*full;1*local(4)", .key_heads = 2},
    {.spec = "1*topk(3);4*full;1*local(4)", .key_heads = 2, .kind = AttentionKind::kCausal, .dense = true},
    {.spec = "5*full;1*topk(2)", .key_heads = 1},
    {.spec = "2*entmax(learned);2*topk(3)+entmax(learned);2*full", .learns = true},
    {.spec = "2*full;1*entmax(learned);3*entmax(1.5)", .key_heads = 3, .dense = true, .learns = true},
    {.spec = "1*sink;2*topk(3)+entmax(learned);2*topk(3)+sink;1*sink(-1)", .learns = true},
    {.spec = "4*window(4)+sink;2*full", .key_heads = 3, .dense = true, .learns = true},
    {.spec = "1*softcap(0.5);3*softcap(2)+topk(3)+sink;2*window(4)", .learns = true},
    {.spec = "4*window(4)+softcap(0.4);2*softcap(0.6)+relu", .key_heads = 3, .dense = true, .terms = Terms::kAll},
    {.spec = "3*blocktopk(4,2)+softcap(0.5);3*full", .kind = AttentionKind::kCausal, .terms = Terms::kByHead},
    {.spec = "2*full;4*topk(3)", .terms = Terms::kByHead},
    {.spec = "2*full;4*topk(3)", .terms = Terms::kAll},
    {.spec = "1*window(5);2*full;3*relu", .key_heads = 2, .dense = true, .terms = Terms::kAll},
    {.spec = "3*full;3*local(6)", .kind = AttentionKind::kCausal, .terms = Terms::kSharedRows},
    {.spec = "topk(3)", .key_heads = 2, .dense = true, .terms = Terms::kSharedRows},
    {.spec = "blocktopk(3,2)"},
    {.spec = "blocktopk(3,2)", .kind = AttentionKind::kCausal, .dense = true},
    {.spec = "2*blocktopk(2,3,bounds);4*blocktopk(3,2)", .key_heads = 3, .kind = AttentionKind::kCausal},
    {.spec = "1*blocktopk(2,3,bounds);5*blocktopk(3,1)", .key_heads = 2, .dense = true},
    {.spec = "1*full;3*blocktopk(1,4);2*relu", .key_heads = 2, .kind = AttentionKind::kCausal},
    {.spec = "3*blocktopk(4,2)+topk(3,keep=window(2));3*blocktopk(4,9)+entmax(1.5)", .kind = AttentionKind::kCausal},
    {.spec = "2*blocktopk(4,2)+sink;4*sink", .key_heads = 3, .kind = AttentionKind::kCausal, .learns = true},
    {.spec = "4*blocktopk(4,2)+entmax(learned);2*topk(3)", .dense = true, .learns = true},
    {.spec = "2*blocktopk(4,2);4*blocktopk(2,2)+relu", .kind = AttentionKind::kCausal, .terms = Terms::kAll},
};

TEST(AttentionLayers, KernelsAgreeWithTheOracle) {
  for (const LayerCase& c : kCases) expect_oracle(c, at::kFloat, 2e-5);
}
TEST(AttentionLayers, TheReferenceAgreesWithTheOracle) {
  for (const LayerCase& c : kCases) expect_oracle(c, at::kDouble, 1e-10);
}

// bfloat16 keeps 8 bits, so selections among rounded scores may differ: mechanisms without one are compared.
TEST(AttentionLayers, KernelsOfBfloat16AgreeWithTheOracle) {
  for (const LayerCase& c : kCases) {
    if (c.spec.find("topk") == std::string::npos) expect_oracle(c, at::kBFloat16, 2e-2);
  }
}

at::Tensor plain_attention(const Inputs& x, const LayerCase& c) {
  return attention(x.q, x.k, x.v, c.spec, options_of(c, x));
}

// Blocks of one key are top-k beside the query itself, and all blocks are all keys.
TEST(AttentionLayers, LawsOfChosenBlocks) {
  for (const auto kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    for (const auto& [blocks, same] :
         {std::pair("blocktopk(1,4)", "topk(3,keep=window(1))"),
          std::pair("blocktopk(1,2,bounds)", "topk(1,keep=window(1))"), std::pair("blocktopk(4,4)", "full"),
          std::pair("blocktopk(20,1,bounds)", "full"), std::pair("blocktopk(4,1)", "block(4)")}) {
      const LayerCase by_blocks{.spec = blocks, .kind = kind}, by_keys{.spec = same, .kind = kind};
      const Inputs x = in_type(inputs_of(by_blocks), at::kFloat), y = in_type(inputs_of(by_keys), at::kFloat);
      const at::Tensor out = plain_attention(x, by_blocks), want = plain_attention(y, by_keys);
      EXPECT_LE(difference(out, want.to(at::kDouble)), 1e-6) << blocks;
      const at::Tensor grad = drawn(out.sizes()).to(at::kFloat);
      const auto grads = torch::autograd::grad({out}, x.all(), {grad});
      const auto wants = torch::autograd::grad({want}, y.all(), {grad});
      for (size_t i = 0; i < grads.size(); ++i)
        EXPECT_LE(difference(grads[i], wants[i].to(at::kDouble)), 1e-5) << blocks << " gradient " << i;
    }
  }
}

// Weights for analysis choose the same keys.
TEST(AttentionLayers, WeightsOfChosenBlocks) {
  const LayerCase c{.spec = "2*blocktopk(3,2);4*full", .kind = AttentionKind::kCausal, .dense = true};
  const Inputs x = inputs_of(c);
  const at::Tensor weights = attention_weights(x.q, x.k, c.spec, options_of(c, x));
  EXPECT_LE(difference(at::matmul(weights, x.v), plain_attention(x, c)), 1e-10);
}

TEST(AttentionLayers, ChosenBlocksAreRefusedWithAReason) {
  LayerCase c{.spec = "blocktopk(3,2)", .kind = AttentionKind::kCross};
  const Inputs x = inputs_of(c);
  const auto message = [&](const LayerCase& of, const PairLists& pairs) {
    AttentionOptions options = options_of(of, x);
    options.pairs = pairs;
    try {
      attention(x.q, x.k, x.v, of.spec, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(c, {}),
            "attention 'blocktopk(3,2)': 'blocktopk' compares the positions of queries and keys, which belong to "
            "different texts in cross-attention; use full or random(k) there, with any selection and transform");
  c.kind = AttentionKind::kCausal;
  EXPECT_EQ(message(c, {.lists = at::zeros({x.q.size(0), 1}, at::kLong), .block = 1}),
            "attention: indices and 'blocktopk(3,2)' both choose the keys of a query; leave one of them out");
}

// A group's heads have the bits that they have in a layer of their own.
TEST(AttentionLayers, GroupsDoNotTouchOneAnother) {
  const LayerCase c{.spec = "2*topk(3);1*local(4);3*sparsemax", .kind = AttentionKind::kCausal, .terms = Terms::kAll};
  const Inputs all = in_type(inputs_of(c), at::kFloat);
  const at::Tensor out = attention(all.q, all.k, all.v, c.spec, options_of(c, all));
  const at::Tensor grad = drawn(out.sizes()).to(at::kFloat);
  const auto grads = torch::autograd::grad({out}, all.all(), {grad});
  const std::array<std::pair<std::string, int64_t>, 3> groups{{{"topk(3)", 2}, {"local(4)", 1}, {"sparsemax", 3}}};
  int64_t first = 0;
  for (const auto& [spec, count] : groups) {
    const auto part = [&, first = first, count = count](const at::Tensor& x, int64_t dim) {
      return x.detach().narrow(dim, first, count).clone().requires_grad_();
    };
    const LayerCase alone{.spec = spec, .heads = count, .key_heads = count, .kind = c.kind};
    const Inputs own{part(all.q, 1),       part(all.k, 1),        part(all.v, 1),       {},
                     part(all.by_head, 0), part(all.by_query, 1), part(all.queries, 1), part(all.rows, 1)};
    const at::Tensor head = attention(own.q, own.k, own.v, spec, options_of(alone, own));
    EXPECT_TRUE(head.equal(out.narrow(1, first, count))) << spec;
    const auto own_grads = torch::autograd::grad({head}, own.all(), {grad.narrow(1, first, count)});
    for (size_t i = 0; i < own_grads.size(); ++i) {
      const int64_t dim = i == 3 ? 0 : 1;
      EXPECT_TRUE(own_grads[i].equal(grads[i].narrow(dim, first, count))) << spec << " gradient " << i;
    }
    first += count;
  }
}

// Lists for each head of the keys go to the heads that read it.
TEST(AttentionLayers, ListsOfKeyHeadsGoWithTheirGroups) {
  const LayerCase c{.spec = "2*full;4*topk(2)", .key_heads = 3};
  const Inputs all = in_type(inputs_of(c), at::kFloat);
  const int64_t tokens = all.q.size(0);
  AttentionOptions options = options_of(c, all);
  options.pairs = {.lists = at::full({tokens, c.key_heads, 2}, -1, at::kLong), .block = 4, .by_head = true};
  auto lists = options.pairs.lists.accessor<int64_t, 3>();
  int64_t token = 0;
  for (const int64_t length : kLengths) {
    for (int64_t i = 0; i < length; ++i, ++token) {
      for (int64_t h = 0; h < c.key_heads; ++h) lists[token][h][h % 2] = (i + h) % ((length + 3) / 4);
    }
  }
  const at::Tensor out = attention(all.q, all.k, all.v, c.spec, options);
  for (const auto& [spec, first, count] : {std::tuple("full", 0, 2), std::tuple("topk(2)", 2, 4)}) {
    const auto heads = [](const at::Tensor& x, int64_t begin, int64_t n) { return x.detach().narrow(1, begin, n); };
    AttentionOptions own = options;
    own.pairs.lists = heads(options.pairs.lists, first / 2, count / 2);
    const at::Tensor alone = attention(heads(all.q, first, count), heads(all.k, first / 2, count / 2),
                                       heads(all.v, first / 2, count / 2), spec, own);
    EXPECT_TRUE(alone.equal(out.narrow(1, first, count))) << spec;
  }
}

// Heads with a span read the offsets that it can reach; others take none of its terms.
TEST(AttentionLayers, TermsOfSpansAreForTheirHeadsAlone) {
  const LayerCase c{.spec = "2*full;4*span(3,2)", .kind = AttentionKind::kCausal, .terms = Terms::kByHead};
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Inputs x = in_type(inputs_of(c), type);
    AttentionOptions options = options_of(c, x);
    options.offsets.for_spans = true;
    const at::Tensor out = attention(x.q, x.k, x.v, c.spec, options);
    const at::Tensor grad = drawn(out.sizes()).to(type);
    const auto grads = torch::autograd::grad({out}, {x.q, x.by_head}, {grad});
    AttentionOptions without = options;
    without.offsets = {};
    const at::Tensor full = attention(x.q, x.k, x.v, "full", without);
    EXPECT_LE(difference(out.narrow(1, 0, 2), full.narrow(1, 0, 2).to(at::kDouble)), 1e-6) << type;
    EXPECT_EQ(grads[1].narrow(0, 0, 2).abs().max().item<double>(), 0) << type;
    // Offsets from -3 to -1 are entries 1 to 3 of the table; the query's own key counts as the nearest.
    EXPECT_GT(grads[1].narrow(0, 2, 4).narrow(1, 1, 3).abs().min().item<double>(), 0) << type;
    EXPECT_EQ(grads[1].narrow(0, 2, 4).narrow(1, 5, 2).abs().max().item<double>(), 0) << type;
  }
}

TEST(AttentionLayers, RoutedHeadsHaveOneWidth) {
  const LayerCase c{.spec = "1*full;1*routed(2,4,random)", .heads = 2, .key_heads = 2};
  const Inputs x = in_type(inputs_of(c), at::kFloat);
  EXPECT_NO_THROW(attention(x.q, x.k, x.v, c.spec, options_of(c, x)));
  EXPECT_THROW(attention(x.q, x.k, at::cat({x.v, x.v}, -1), c.spec, options_of(c, x)), Error);
}

TEST(AttentionLayers, RefuseSecondDerivativesAndOtherKernelsInBackward) {
  const LayerCase c{.spec = "full", .heads = 2, .key_heads = 2};
  const Inputs x = in_type(inputs_of(c), at::kFloat);
  const at::Tensor out = attention(x.q, x.k, x.v, c.spec, options_of(c, x));
  EXPECT_THROW(torch::autograd::grad({out.sum()}, {x.q}, {}, true, /*create_graph=*/true), std::exception);
  setenv("FOVEA_KERNEL", "reference", 1);
  EXPECT_THROW(torch::autograd::grad({out.sum()}, {x.q}), std::exception);
  unsetenv("FOVEA_KERNEL");
}

}  // namespace
}  // namespace fovea::ops::attention_test
