#include "fovea/kernels/call/indexer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::kernels {
namespace {

using Element = TensorView::Element;

// Whether the leading sizes of x, `count` of them, are those of `like`.
bool begins_as(const TensorView& x, const TensorView& like, size_t count) {
  return x.dim() >= count && like.dim() >= count && std::ranges::equal(x.sizes.first(count), like.sizes.first(count));
}

std::string type_and_device(const TensorView& x) { return cat(x.type_name(), " on ", x.device_name()); }

// The types and the devices of queries, keys and weights of an indexer.
void check_types(const IndexTopkViews& x, std::string_view caller) {
  const TensorView &q = x.q, &k = x.k, &weights = x.weights;
  const bool weights_fit = weights.element == q.element || weights.element == Element::kFloat32;
  if (q.is_floating() && k.element == q.element && weights_fit && k.device == q.device && weights.device == q.device)
    return;
  throw Error(cat(caller, ": q is ", type_and_device(q), ", k ", type_and_device(k), " and weights ",
                  type_and_device(weights), "; expected one floating type, weights of it or float32, and one device"));
}

}  // namespace

void check_index_topk(const IndexTopkViews& x, int64_t k_best) {
  const TensorView &q = x.q, &k = x.k, &weights = x.weights;
  const size_t dims = q.dim();
  if ((dims != 3 && dims != 4) || k.dim() != dims - 1 || weights.dim() != dims - 1 || k.width() != q.width() ||
      !begins_as(weights, q, dims - 1) || (dims == 4 && k.sizes[0] != q.sizes[0]) || q.width() == 0 ||
      q.sizes[dims - 2] == 0) {
    throw Error(cat("index_topk: q has shape ", shape(q), ", k ", shape(k), " and weights ", shape(weights),
                    "; expected [B, S, H, D], [B, T, D] and [B, S, H], or packed [T_q, H, D], [T_k, D] and [T_q, H]"));
  }
  check_types(x, "index_topk");
  if (k_best < 1) throw Error(cat("index_topk: got k_best ", k_best, "; expected 1 or more"));
  if (dims == 4 && (x.q_offsets || x.k_offsets))
    throw Error("index_topk: got offsets for dense tensors [B, S, H, D]; flatten them to [B S, H, D]");
}

void check_index_keys(int64_t keys) {
  if (keys <= std::numeric_limits<int32_t>::max()) return;
  throw Error(cat("index_topk: got ", keys, " keys; expected fewer than 2^31"));
}

void check_block_topk(const BlockTopkViews& x, int64_t block_size, int64_t k_best) {
  const TensorView &q = x.q, &k = x.k;
  const size_t dims = q.dim();
  if ((dims != 3 && dims != 4) || k.dim() != dims || k.width() != q.width() || q.width() == 0 || k.heads() == 0 ||
      q.heads() % k.heads() != 0 || (dims == 4 && k.sizes[0] != q.sizes[0])) {
    throw Error(cat("block_topk: q has shape ", shape(q), " and k ", shape(k), "; expected [B, H, N_q, D] and ",
                    "[B, H_kv, N_k, D], or packed [T_q, H, D] and [T_k, H_kv, D], with H_kv a divisor of H"));
  }
  if (!q.is_floating() || k.element != q.element || k.device != q.device) {
    throw Error(cat("block_topk: q is ", type_and_device(q), " and k ", type_and_device(k),
                    "; expected one floating type and one device"));
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const auto& [name, count] : {std::pair("block_size", block_size), std::pair("k_best", k_best)}) {
    if (count < 1 || count > kMost) throw Error(cat("block_topk: got ", name, " ", count, "; expected 1 to ", kMost));
  }
  if (dims == 4 && (x.q_offsets || x.k_offsets))
    throw Error("block_topk: got offsets for dense tensors [B, H, N, D]; give lengths, or packed tensors [T, H, D]");
  if (dims == 3 && x.lengths) throw Error("block_topk: got lengths for packed tensors [T, H, D]; give q_offsets");
  if (x.lengths && q.sizes[2] != k.sizes[2]) {
    throw Error(cat("block_topk: got lengths for ", q.sizes[2], " queries and ", k.sizes[2],
                    " keys; expected as many of both"));
  }
}

void check_index_target(const IndexTargetViews& x) {
  const auto& [q, k, indices] = x;
  const bool fits = q.dim() == 4 && k.dim() == 4 && indices.dim() == 3 && k.sizes[0] == q.sizes[0] &&
                    k.width() == q.width() && indices.sizes[0] == q.sizes[0] && indices.sizes[1] == q.sizes[2] &&
                    k.heads() > 0 && q.heads() % k.heads() == 0;
  if (!fits) {
    throw Error(cat("index_target: q has shape ", shape(q), ", k ", shape(k), " and indices ", shape(indices),
                    "; expected [B, H, S, D], [B, H_kv, T, D] with H_kv a divisor of H, and [B, S, n]"));
  }
  if (!q.is_floating() || k.element != q.element || indices.element != Element::kInt32) {
    throw Error(cat("index_target: q is ", q.type_name(), ", k ", k.type_name(), " and indices ", indices.type_name(),
                    "; expected one floating type and int32"));
  }
}

void check_index_loss(const IndexLossViews& x) {
  const auto& [q, k, weights, indices, target] = x;
  const bool fits = q.dim() == 4 && k.dim() == 3 && weights.dim() == 3 && indices.dim() == 3 &&
                    k.sizes[0] == q.sizes[0] && k.width() == q.width() && begins_as(weights, q, 3) &&
                    begins_as(indices, q, 2) && std::ranges::equal(target.sizes, indices.sizes);
  if (!fits) {
    throw Error(cat("index_loss: got q ", shape(q), ", k ", shape(k), ", weights ", shape(weights), ", indices ",
                    shape(indices), " and target ", shape(target),
                    "; expected [B, S, H, D], [B, T, D], [B, S, H] and twice [B, S, n]"));
  }
  check_types({q, k, weights}, "index_loss");
  if (!indices.is_integer() || !target.is_floating()) {
    throw Error(cat("index_loss: indices are ", indices.type_name(), " and target is ", target.type_name(),
                    "; expected int32 or int64, and a floating type"));
  }
}

void check_index_loss_kernel(const IndexLossViews& x) {
  const auto fits = [](const TensorView& t) {
    return t.on_cpu && t.dense && (t.element == Element::kFloat32 || t.element == Element::kBFloat16);
  };
  if (fits(x.q) && fits(x.k) && x.indices.on_cpu) return;
  throw Error(cat("index_loss: q is ", type_and_device(x.q), " and k ", type_and_device(x.k),
                  "; expected float32 or bfloat16 on the CPU"));
}

void check_index_range(int64_t least, int64_t greatest, int64_t keys, std::string_view caller) {
  if (least >= -1 && greatest < keys) return;
  throw Error(cat(caller, ": indices lie in [", least, ", ", greatest, "]; expected -1 or keys below ", keys));
}

}  // namespace fovea::kernels
