#include "fovea/ops/routing_entry.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <vector>

#include "fovea/ops/test_routing.h"

namespace fovea::ops::routing_entry_test {
namespace {

constexpr int64_t kTokens = 9, kClusters = 3;

// Members of two heads: rows with none, one and several.
c10::intrusive_ptr<ClusterEntry> entry_of(const at::Tensor& centroids) {
  auto entry = c10::make_intrusive<ClusterEntry>();
  kernels::MemberLists lists;
  lists.rows = {0, 2, 5, 2, 7, 9, 2, 17, 16, 5};
  entry->members = c10::make_intrusive<MemberRows>(lists, kTokens, kHeads);
  entry->centroids = centroids;
  entry->tokens.ranges = {{0, 3}, {4, 4}};
  for (int32_t i = 0; i < kHeads * kTokens; ++i) entry->tokens.nearest.push_back(i % kClusters);
  return entry;
}

// Composes it of functions of autograd that are tested by themselves: the norm of ATen, rows and the distance.
EnteredRows composed(const at::Tensor& x, const ClusterEntry& entry) {
  const at::Tensor vectors = at::layer_norm(x, {x.size(2)}, {}, {}, kernels::kRoutingNormEps);
  const at::Tensor rows = gather_rows(vectors, entry.members);
  return {rows, rows, distance_to_centroids(vectors, entry.centroids, entry.tokens)};
}

EnteredRows entered(const at::Tensor& x, const c10::intrusive_ptr<ClusterEntry>& entry) {
  const at::Tensor vectors = at::layer_norm(x.detach(), {x.size(2)}, {}, {}, kernels::kRoutingNormEps);
  entry->distance = measure_clusters(vectors, entry->centroids, entry->tokens).mean_square;
  return enter_clusters(x, vectors, entry);
}

// A loss in which queries, keys and the distance have gradients of their own.
at::Tensor loss_of(const EnteredRows& rows, const at::Tensor& by_q, const at::Tensor& by_k) {
  return (rows.q * by_q).sum() + (rows.k.square() * by_k).sum() + 5 * rows.distance;
}

TEST(RoutingEntry, IsItsComposition) {
  const at::Tensor by_q = routing_noise({10, 1, kWidth}, 2), by_k = routing_noise({10, 1, kWidth}, 3);
  const at::Tensor given = routing_noise({kHeads, kTokens, kWidth}, 1).transpose(0, 1);  // of strides of its own
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-13}, std::pair{at::kFloat, 2e-5}, std::pair{at::kBFloat16, 0.15}}) {
    SCOPED_TRACE(type);
    const auto entry = entry_of(routing_noise({kHeads, kClusters, kWidth}, 4).to(type));
    const auto grad_of = [&](const auto& enter) {
      const at::Tensor x = given.to(type).detach().requires_grad_();
      const EnteredRows rows = enter(x);
      loss_of(rows, by_q.to(type), by_k.to(type)).backward();
      return std::vector<at::Tensor>{rows.q.detach(), rows.distance.detach(), x.grad()};
    };
    const auto mine = grad_of([&](const at::Tensor& x) { return entered(x, entry); });
    const auto right = grad_of([&](const at::Tensor& x) { return composed(x, *entry); });
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_LT(routing_difference(mine[i].to(at::kDouble), right[i].to(at::kDouble)), tolerance) << i;
  }
}

// A gradient that only one output has.
TEST(RoutingEntry, OutputsMayHaveNoGradient) {
  const auto entry = entry_of(routing_noise({kHeads, kClusters, kWidth}, 4));
  const at::Tensor by = routing_noise({10, 1, kWidth}, 2), given = routing_noise({kTokens, kHeads, kWidth}, 1);
  const auto grad_of = [&](const auto& loss, bool mine) {
    const at::Tensor x = given.detach().requires_grad_();
    loss(mine ? entered(x, entry) : composed(x, *entry)).backward();
    return x.grad();
  };
  const auto expect_equal = [&](const auto& loss) {
    EXPECT_LT(routing_difference(grad_of(loss, true), grad_of(loss, false)), 1e-13);
  };
  expect_equal([&](const EnteredRows& rows) { return (rows.q * by).sum(); });
  expect_equal([&](const EnteredRows& rows) { return (rows.k * by).sum(); });
  expect_equal([&](const EnteredRows& rows) { return rows.distance; });
}

}  // namespace
}  // namespace fovea::ops::routing_entry_test
