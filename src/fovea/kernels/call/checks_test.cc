#include "fovea/kernels/call/checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/kernels/call/call.h"
#include "fovea/kernels/call/indexer.h"

// The conditions of a call, on views without tensors.
namespace fovea::kernels::checks_test {
namespace {

using Element = TensorView::Element;

std::string name(const void* tensor, TensorView::Trait trait) {
  if (trait == TensorView::Trait::kDevice) return "here";
  return trait == TensorView::Trait::kType ? static_cast<const char*>(tensor) : "Sparse";
}

// A tensor of float32, contiguous, without data.
struct Made {
  explicit Made(std::vector<int64_t> of, Element element = Element::kFloat32, const char* type = "Float")
      : sizes(std::move(of)), strides(sizes.size(), 1) {
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
    view = {.sizes = sizes, .strides = strides, .element = element, .tensor = type, .name = &name};
  }
  std::vector<int64_t> sizes, strides;
  TensorView view;
};

std::string told(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Checks, InputsFitEachOther) {
  const Made q({2, 4, 6, 8}), two({2, 2, 6, 8}), three({2, 3, 6, 8}), narrow({2, 4, 6, 5});
  check_inputs({q.view, q.view, q.view}, {});
  check_inputs({q.view, two.view, two.view}, key_sharing(q.view, two.view));
  check_inputs({q.view, q.view, narrow.view}, {}, ValueWidth::kAny);
  EXPECT_EQ(
      told([&] {
        check_inputs({q.view, q.view, narrow.view}, {});
      }),
      "attention: q has shape [2, 4, 6, 8], k [2, 4, 6, 8] and v [2, 4, 6, 5]; expected equal heads, head sizes and "
      "batches, and k like v");
  EXPECT_EQ(
      told([&] {
        check_inputs({q.view, two.view, two.view}, {});
      }),
      "attention: q has shape [2, 4, 6, 8], k [2, 2, 6, 8] and v [2, 2, 6, 8]; expected equal heads, head sizes and "
      "batches, and k like v; fewer heads of k and v go with enable_gqa");
  EXPECT_EQ(told([&] { key_sharing(q.view, three.view); }),
            "attention: q has 4 heads and k 3; with enable_gqa expected a number of heads of k that divides that of q");
}

TEST(Checks, TypesAndLayouts) {
  const Made q({6, 4, 8}), whole({6, 4, 8}, Element::kInt64, "Long"), flat({6, 8});
  EXPECT_EQ(told([&] {
              check_inputs({q.view, whole.view, q.view}, {});
            }),
            "attention: q is Float on here, k Long on here and v Float on here; expected one type (float32, bfloat16, "
            "float16 or float64) and one device");
  EXPECT_EQ(told([&] {
              check_layout({flat.view, flat.view, flat.view});
            }),
            "attention: q has shape [6, 8]; expected [T, H, D] or [B, H, N, D]");
  Made sparse({6, 4, 8});
  sparse.view.dense = false;
  EXPECT_EQ(told([&] {
              check_layout({q.view, sparse.view, q.view});
            }),
            "attention: k is Sparse; expected a dense tensor, sequences of several lengths packed as [T, H, D] with "
            "q_offsets");
}

TEST(Checks, TermsHaveTheTypeOfTheScores) {
  const Made q({6, 4, 8}), by_head({4, 3}), rows({3, 1, 8}), two({3, 2, 8});
  check_terms(q.view, {.by_head = by_head.view, .queries = q.view, .rows = rows.view});
  EXPECT_EQ(told([&] { check_terms(q.view, {.rows = rows.view}); }),
            "attention: offset_queries and offset_rows go together; give both");
  EXPECT_EQ(
      told([&] { check_terms(q.view, {.queries = q.view, .rows = two.view}); }),
      "attention: offset_rows is Float [3, 2, 8] on here; expected Float [offsets, H or 1, D] on here for q of shape "
      "[6, 4, 8]");
  const Made wide({6, 4, 8}, Element::kFloat64, "Double");
  EXPECT_EQ(
      told([&] { check_terms(wide.view, {.by_head = by_head.view}); }),
      "attention: offset_bias by head is Float [4, 3] on here; expected Double [H, offsets] on here for q of shape "
      "[6, 4, 8]");
}

// Heads are counted in the layer, whichever group they are in.
TEST(Checks, AlphaOfEachHeadIsInItsRange) {
  const std::vector<AttentionLayer::Group> groups{{.num_heads = 2, .spec = {}, .reads_alpha = false},
                                                  {.num_heads = 2, .spec = {}, .reads_alpha = true}};
  const Made q({6, 4, 8});
  Made alpha({4});
  const float values[] = {0, 0, 1.5F, 70};
  alpha.view.data = values;
  const auto check = [&] {
    problem_of({.x = {q.view, q.view, q.view}, .alpha = alpha.view}, groups, Phase::kInference);
  };
  EXPECT_EQ(told(check), "attention: alpha of head 3 is 70; expected one in [1.0001, 64]");
}

TEST(Checks, ScalesAreFiniteInFloat32) {
  for (const double good : {-3.0, 0.0, 1e38}) EXPECT_NO_THROW(check_scale(good, "attention"));
  EXPECT_NO_THROW(check_scale(std::nullopt, "attention"));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e39}) EXPECT_THROW(check_scale(bad, "attention"), Error);
}

TEST(Checks, OneListOfPairs) {
  const Made q({1, 4, 6, 8}), lists({1, 6, 2}, Element::kInt32, "Int");
  EXPECT_EQ(checked_lists({q.view, q.view, q.view}, one_of({.indices = lists.view, .block_indices = {}})).count, 2);
  EXPECT_EQ(told([&] { one_of({.indices = lists.view, .block_indices = lists.view}); }),
            "attention: got indices and block_indices; expected one of them, as each names all pairs of a query");
  EXPECT_EQ(told([&] { one_of({.indices = {}, .block_indices = {}, .block_size = 4}); }),
            "attention: got block_size 4 without block_indices; leave it out");
}

TEST(Checks, OptionsOfLayouts) {
  const Made packed({6, 4, 8}), dense({1, 4, 6, 8}), vector({2}, Element::kInt64, "Long");
  LayerViews options;
  options.vectors.k_begins = vector.view;
  EXPECT_NE(told([&] { check_options({packed.view, packed.view, packed.view}, options, Graph::kNone); }), "");
  options.vectors.q_offsets = vector.view, options.vectors.k_lengths = vector.view;
  check_options({packed.view, packed.view, packed.view}, options, Graph::kNone);
  EXPECT_EQ(told([&] {
              check_options({packed.view, packed.view, packed.view}, options, Graph::kRecorded);
            }),
            "attention: k_begins have no gradients; give k_offsets, or call without gradients");
  options = {};
  options.vectors.q_offsets = vector.view;
  EXPECT_EQ(told([&] {
              check_options({dense.view, dense.view, dense.view}, options, Graph::kNone);
            }),
            "attention: got offsets for dense tensors [B, H, N, D]; give q_lengths and k_lengths");
}

TEST(Checks, QueriesOfAnIndexer) {
  const Made q({2, 3, 4, 5}), k({2, 7, 5}), weights({2, 3, 4}), narrow({2, 7, 6}),
      offsets({2}, Element::kInt64, "Long");
  const Made half({2, 7, 5}, Element::kFloat16, "Half");
  check_index_topk({q.view, k.view, weights.view}, 1);
  EXPECT_EQ(told([&] {
              check_index_topk({q.view, narrow.view, weights.view}, 1);
            }),
            "index_topk: q has shape [2, 3, 4, 5], k [2, 7, 6] and weights [2, 3, 4]; expected [B, S, H, D], [B, T, D] "
            "and [B, S, H], or packed [T_q, H, D], [T_k, D] and [T_q, H]");
  EXPECT_EQ(told([&] {
              check_index_topk({q.view, half.view, weights.view}, 1);
            }),
            "index_topk: q is Float on here, k Half on here and weights Float on here; expected one floating type, "
            "weights of it or float32, and one device");
  EXPECT_EQ(told([&] {
              check_index_topk({q.view, k.view, weights.view}, 0);
            }),
            "index_topk: got k_best 0; expected 1 or more");
  EXPECT_EQ(told([&] {
              check_index_topk({q.view, k.view, weights.view, offsets.view}, 1);
            }),
            "index_topk: got offsets for dense tensors [B, S, H, D]; flatten them to [B S, H, D]");
  check_index_keys((int64_t{1} << 31) - 1);
  EXPECT_EQ(told([] { check_index_keys(int64_t{1} << 31); }),
            "index_topk: got 2147483648 keys; expected fewer than 2^31");
}

TEST(Checks, ChoicesOfBlocks) {
  const Made q({2, 4, 3, 5}), k({2, 2, 7, 5}), three({2, 3, 7, 5}), lengths({2}, Element::kInt64, "Long");
  const Made half({2, 2, 7, 5}, Element::kFloat16, "Half"), packed({9, 4, 5});
  check_block_topk({q.view, k.view}, 4, 2);
  EXPECT_EQ(told([&] {
              check_block_topk({q.view, three.view}, 4, 2);
            }),
            "block_topk: q has shape [2, 4, 3, 5] and k [2, 3, 7, 5]; expected [B, H, N_q, D] and [B, H_kv, N_k, D], "
            "or packed [T_q, H, D] and [T_k, H_kv, D], with H_kv a divisor of H");
  EXPECT_EQ(told([&] {
              check_block_topk({q.view, half.view}, 4, 2);
            }),
            "block_topk: q is Float on here and k Half on here; expected one floating type and one device");
  EXPECT_EQ(told([&] {
              check_block_topk({q.view, k.view}, 0, 2);
            }),
            "block_topk: got block_size 0; expected 1 to 2147483647");
  EXPECT_EQ(told([&] {
              check_block_topk({q.view, k.view}, 4, int64_t{1} << 31);
            }),
            "block_topk: got k_best 2147483648; expected 1 to 2147483647");
  EXPECT_EQ(told([&] {
              check_block_topk({q.view, k.view, lengths.view}, 4, 2);
            }),
            "block_topk: got offsets for dense tensors [B, H, N, D]; give lengths, or packed tensors [T, H, D]");
  EXPECT_EQ(told([&] {
              check_block_topk({packed.view, packed.view, {}, {}, lengths.view}, 4, 2);
            }),
            "block_topk: got lengths for packed tensors [T, H, D]; give q_offsets");
  EXPECT_EQ(told([&] {
              check_block_topk({q.view, k.view, {}, {}, lengths.view}, 4, 2);
            }),
            "block_topk: got lengths for 3 queries and 7 keys; expected as many of both");
}

TEST(Checks, TargetsOfAnIndexer) {
  const Made q({2, 4, 3, 5}), k({2, 2, 7, 5}), three({2, 3, 7, 5}), indices({2, 3, 6}, Element::kInt32, "Int");
  const Made wide({2, 3, 6}, Element::kInt64, "Long");
  check_index_target({q.view, k.view, indices.view});
  EXPECT_EQ(told([&] {
              check_index_target({q.view, three.view, indices.view});
            }),
            "index_target: q has shape [2, 4, 3, 5], k [2, 3, 7, 5] and indices [2, 3, 6]; expected [B, H, S, D], "
            "[B, H_kv, T, D] with H_kv a divisor of H, and [B, S, n]");
  EXPECT_EQ(told([&] {
              check_index_target({q.view, k.view, wide.view});
            }),
            "index_target: q is Float, k Float and indices Long; expected one floating type and int32");
  check_index_range(-1, 6, 7, "index_target");
  EXPECT_EQ(told([] { check_index_range(-2, 6, 7, "index_target"); }),
            "index_target: indices lie in [-2, 6]; expected -1 or keys below 7");
  EXPECT_EQ(told([] { check_index_range(0, 7, 7, "index_target"); }),
            "index_target: indices lie in [0, 7]; expected -1 or keys below 7");
}

TEST(Checks, LossesOfAnIndexer) {
  const Made q({2, 3, 4, 5}), k({2, 7, 5}), weights({2, 3, 4}), target({2, 3, 6}), short_target({2, 3, 5});
  const Made indices({2, 3, 6}, Element::kInt64, "Long"), half({2, 3, 4}, Element::kFloat16, "Half");
  check_index_loss({q.view, k.view, weights.view, indices.view, target.view});
  check_index_loss_kernel({q.view, k.view, weights.view, indices.view, target.view});
  EXPECT_EQ(told([&] {
              check_index_loss({q.view, k.view, weights.view, indices.view, short_target.view});
            }),
            "index_loss: got q [2, 3, 4, 5], k [2, 7, 5], weights [2, 3, 4], indices [2, 3, 6] and target [2, 3, 5]; "
            "expected [B, S, H, D], [B, T, D], [B, S, H] and twice [B, S, n]");
  EXPECT_EQ(told([&] {
              check_index_loss({q.view, k.view, half.view, indices.view, target.view});
            }),
            "index_loss: q is Float on here, k Float on here and weights Half on here; expected one floating type, "
            "weights of it or float32, and one device");
  EXPECT_EQ(told([&] {
              check_index_loss({q.view, k.view, weights.view, target.view, target.view});
            }),
            "index_loss: indices are Float and target is Float; expected int32 or int64, and a floating type");
  Made far({2, 7, 5});
  far.view.on_cpu = false;
  EXPECT_EQ(told([&] {
              check_index_loss_kernel({q.view, far.view, weights.view, indices.view, target.view});
            }),
            "index_loss: q is Float on here and k Float on here; expected float32 or bfloat16 on the CPU");
}

}  // namespace
}  // namespace fovea::kernels::checks_test
