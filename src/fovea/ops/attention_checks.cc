#include "fovea/ops/attention_checks.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"

namespace fovea::ops {
namespace {

// Each tensor lies where it is read.
void check_devices(const at::Device& device, const AttentionOptions& options) {
  const auto check_one = [&](const char* name, const std::optional<at::Tensor>& x, const at::Device& wanted) {
    if (!x || x->device() == wanted || x->device() == device) return;  // vectors of lengths are checked where read
    throw Error(cat("attention: ", name, " is on ", x->device().str(), "; expected it on ", wanted.str()));
  };
  for (const auto& [name, x] : {std::pair("alpha", &options.alpha), std::pair("gain", &options.gain),
                                std::pair("gate", &options.gate), std::pair("bias", &options.bias)}) {
    check_one(name, *x, device);
  }
  for (const auto& [name, member] : kSequenceVectors) check_one(name, options.*member, at::kCPU);
  check_one("dropout_seed", options.drawn_seed, at::kCPU);
}

bool is_supported(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
}

}  // namespace

std::string shape(const at::Tensor& x) {
  std::vector<std::string> sizes;
  for (const int64_t size : x.sizes()) sizes.push_back(cat(size));
  return cat('[', join(sizes, ", "), ']');
}

namespace {

// The heads of k that q's read; known wherever heads share keys.
int64_t key_heads(const at::Tensor& q, const kernels::KeySharing& keys) {
  if (!keys.any()) return q.size(1);
  return q.size(1) == 0 ? 0 : keys.key_head(q.size(1) - 1) + 1;
}

}  // namespace

void check_layout(const CoreTensors& inputs) {
  const auto& [q, k, v] = inputs;
  for (const auto& [name, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)}) {
    if (x->layout() != at::kStrided || x->is_nested())
      throw Error(cat("attention: ", name, " is ", x->is_nested() ? "nested" : cat(x->layout()),
                      "; expected a dense tensor, sequences of several lengths packed as [T, H, D] with q_offsets"));
  }
  if (q.dim() != 3 && q.dim() != 4) {
    throw Error(cat("attention: q has shape ", shape(q), "; expected [T, H, D] or [B, H, N, D]"));
  }
}

void check_inputs(const CoreTensors& inputs, const kernels::KeySharing& keys) {
  check_layout(inputs);
  const auto& [q, k, v] = inputs;
  if (k.dim() != q.dim() || v.dim() != q.dim() || k.sizes() != v.sizes() || k.size(1) != key_heads(q, keys) ||
      k.size(-1) != q.size(-1) || (q.dim() == 4 && k.size(0) != q.size(0))) {
    throw Error(cat("attention: q has shape ", shape(q), ", k ", shape(k), " and v ", shape(v),
                    "; expected equal heads, head sizes and batches, and k like v",
                    q.dim() == k.dim() && k.size(1) < q.size(1) ? "; fewer heads of k and v go with enable_gqa" : ""));
  }
  if (k.scalar_type() != q.scalar_type() || v.scalar_type() != q.scalar_type() || k.device() != q.device() ||
      v.device() != q.device() || !is_supported(q.scalar_type())) {
    const auto of = [](const at::Tensor& x) { return cat(x.scalar_type(), " on ", x.device().str()); };
    throw Error(cat("attention: q is ", of(q), ", k ", of(k), " and v ", of(v),
                    "; expected one type (float32, bfloat16, float16 or float64) and one device"));
  }
}

void check_scale(std::optional<double> scale, std::string_view caller) {
  // Kernels take it as float32.
  if (!scale || std::abs(*scale) <= std::numeric_limits<float>::max()) return;
  throw Error(cat(caller, ": scale is ", *scale, "; expected a finite number of float32, or none for 1 / sqrt(D)"));
}

void check_options(const CoreTensors& inputs, const AttentionOptions& options) {
  const auto& [q, k, v] = inputs;
  check_devices(q.device(), options);
  check_scale(options.scale, "attention");
  if (options.drawn_seed && (options.drawn_seed->dim() != 0 || options.drawn_seed->scalar_type() != at::kLong)) {
    throw Error(cat("attention: dropout_seed is ", options.drawn_seed->scalar_type(), " of shape ",
                    shape(*options.drawn_seed), "; expected int64 of no dimension"));
  }
  const bool packed = q.dim() == 3, ranges = options.k_begins.has_value();
  if (ranges && (!packed || !options.q_offsets || !options.k_lengths || options.k_offsets)) {
    throw Error("attention: k_begins are for packed tensors, with q_offsets and k_lengths, in place of k_offsets");
  }
  const bool learns_alpha = options.alpha && options.alpha->requires_grad();
  if (ranges && at::GradMode::is_enabled() &&
      (q.requires_grad() || k.requires_grad() || v.requires_grad() || learns_alpha)) {
    throw Error("attention: k_begins have no gradients; give k_offsets, or call without gradients");
  }
  if (packed ? options.q_lengths || (options.k_lengths && !ranges) : options.q_offsets || options.k_offsets) {
    throw Error(cat("attention: got ", packed
                                           ? "lengths for packed tensors [T, H, D]; give q_offsets and k_offsets"
                                           : "offsets for dense tensors [B, H, N, D]; give q_lengths and k_lengths"));
  }
}

void check_alpha_shape(const std::optional<at::Tensor>& alpha, const AttentionSpec& spec, int64_t num_heads) {
  if (alpha && alpha->dim() == 1 && alpha->size(0) == num_heads) return;
  throw Error(cat("attention: ", print(spec), " needs alpha of shape [", num_heads, "], a value a head; got ",
                  alpha ? shape(*alpha) : "none"));
}

void check_alpha(const at::Tensor& alpha) {
  if (!at::isFloatingType(alpha.scalar_type())) {
    throw Error(cat("attention: alpha is ", alpha.scalar_type(), "; expected a floating type"));
  }
  if (!alpha.device().is_cpu()) return;
  const at::Tensor values = alpha.to(at::kFloat).contiguous();
  for (int64_t h = 0; h < values.numel(); ++h) {
    const float value = values.const_data_ptr<float>()[h];
    if (!(value >= static_cast<float>(kLeastAlpha) && value <= kGreatestAlpha)) {
      throw Error(cat("attention: alpha of head ", h, " is ", value, "; expected one in [", kLeastAlpha, ", ",
                      kGreatestAlpha, "]"));
    }
  }
}

at::ScalarType term_type(const at::Tensor& q) { return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

namespace {

// Whether x has q's shape except for the last dimension.
bool has_shape_of_queries(const at::Tensor& x, const at::Tensor& q) {
  return x.dim() == q.dim() &&
         x.sizes().slice(0, static_cast<size_t>(q.dim() - 1)) == q.sizes().slice(0, static_cast<size_t>(q.dim() - 1));
}

struct WantedTensor {
  const char *name, *expected;
  at::ScalarType type;
  bool fits;
};

void check_term(const at::Tensor& x, const at::Tensor& q, const WantedTensor& wanted) {
  if (wanted.fits && x.scalar_type() == wanted.type && x.device() == q.device() && x.layout() == at::kStrided) return;
  throw Error(cat("attention: ", wanted.name, " is ", x.scalar_type(), ' ', shape(x), " on ", x.device().str(),
                  "; expected ", wanted.type, ' ', wanted.expected, " on ", q.device().str(), " for q of shape ",
                  shape(q)));
}

}  // namespace

void check_terms(const at::Tensor& q, const TermTensors& terms) {
  const auto at_least_one = [](const at::Tensor& x, int64_t dim) { return x.size(dim) > 0; };
  if (const at::Tensor& x = terms.by_head; x.defined()) {
    const bool fits = x.dim() == 2 && x.size(0) == q.size(1) && at_least_one(x, 1);
    check_term(x, q, {"offset_bias by head", "[H, offsets]", term_type(q), fits});
  }
  if (const at::Tensor& x = terms.by_query; x.defined()) {
    const bool fits = has_shape_of_queries(x, q) && at_least_one(x, -1);
    check_term(x, q, {"offset_bias by query", "q's shape with the offsets in place of D", term_type(q), fits});
  }
  if (terms.queries.defined() != terms.rows.defined()) {
    throw Error("attention: offset_queries and offset_rows go together; give both");
  }
  if (!terms.rows.defined()) return;
  const at::Tensor& rows = terms.rows;
  const bool same = has_shape_of_queries(terms.queries, q) && terms.queries.size(-1) == q.size(-1);
  const bool fits = rows.dim() == 3 && at_least_one(rows, 0) && rows.size(2) == q.size(-1) &&
                    (rows.size(1) == 1 || rows.size(1) == q.size(1));
  check_term(terms.queries, q, {"offset_queries", "q's shape", q.scalar_type(), same});
  check_term(rows, q, {"offset_rows", "[offsets, H or 1, D]", q.scalar_type(), fits});
}

}  // namespace fovea::ops
