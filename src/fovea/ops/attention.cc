#include "fovea/ops/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/attention_layer.h"
#include "fovea/ops/attention_norm.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/routing.h"
#include "fovea/spec/attention_parameters.h"

// fovea::attention: head groups, each through the operator fovea::attention_forward, then the norm over their heads.
namespace fovea::ops {
namespace {

// In self-attention, padding among the queries is padding among the keys, so lengths that are given for one of them
// hold for both. Otherwise positions would be counted from the end of the padding.
void share_lengths(const at::Tensor& q, const at::Tensor& k, const AttentionLayer& layer, AttentionOptions& options) {
  const bool compares =
      options.kind == AttentionKind::kCausal || (options.kind == AttentionKind::kSelf && layer.positional);
  if (!compares || q.dim() != 4 || options.q_lengths.has_value() == options.k_lengths.has_value()) return;
  if (q.sym_size(2) != k.sym_size(2)) return;
  std::optional<at::Tensor>& missing = options.q_lengths ? options.k_lengths : options.q_lengths;
  missing = options.q_lengths ? options.q_lengths : options.k_lengths;
}

CoreArguments arguments_of(const at::Tensor& q, const at::Tensor& k, const AttentionLayer& layer,
                           AttentionOptions options) {
  share_lengths(q, k, layer, options);
  const auto dense = [](const std::optional<at::Tensor>& x) { return x ? std::optional(x->contiguous()) : x; };
  const int64_t head_dim = q.sym_size(-1).guard_int(__FILE__, __LINE__);
  CoreArguments arguments;
  arguments.q_offsets = dense(options.q_offsets);
  arguments.k_offsets = dense(options.k_offsets), arguments.k_begins = dense(options.k_begins);
  arguments.k_tokens = dense(options.k_tokens);
  arguments.q_lengths = dense(options.q_lengths), arguments.k_lengths = dense(options.k_lengths);
  arguments.kind = name_of(options.kind);
  arguments.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
  arguments.dropout = options.dropout, arguments.seed = options.seed, arguments.layer = options.layer;
  arguments.dropout_seed = options.dropout_seed, arguments.drawn_seed = options.drawn_seed;
  return arguments;
}

// Throws an Error if a tensor is given that the mechanism does not read: it would never be learned.
void check_read(const AttentionLayer& layer, const std::string& spec, const AttentionOptions& options) {
  const std::tuple<const char*, const std::optional<at::Tensor>*, bool> all[] = {
      {"alpha", &options.alpha, layer.reads.alpha},
      {"gain", &options.gain, layer.reads.gain},
      {"gate", &options.gate, layer.reads.gate},
      {"bias", &options.bias, layer.reads.bias}};
  for (const auto& [name, given, reads] : all) {
    if (given->has_value() && !reads)
      throw Error(cat("attention: got ", name, ", which '", spec, "' does not have; leave it out"));
  }
}

// The number of heads of q that share each head of k and v. The result is for a call that begins with head 0.
kernels::KeySharing key_sharing(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  if (!options.enable_gqa || q.is_nested() || k.is_nested() || q.dim() < 3 || k.dim() != q.dim()) return {};
  const int64_t heads = q.sym_size(1).guard_int(__FILE__, __LINE__);
  const int64_t of_keys = k.sym_size(1).guard_int(__FILE__, __LINE__);
  if (heads == of_keys) return {};
  if (of_keys < 1 || heads % of_keys != 0) {
    throw Error(cat("attention: q has ", heads, " heads and k ", of_keys,
                    "; with enable_gqa expected a number of heads of k that divides that of q"));
  }
  return {.share = heads / of_keys};
}

// The heads of k or v that the heads first ... first + count - 1 of q read.
at::Tensor key_heads_of(const at::Tensor& x, const kernels::KeySharing& keys, int64_t first, int64_t count) {
  const int64_t begin = keys.key_head(first);
  return x.narrow(1, begin, keys.key_head(first + count - 1) + 1 - begin);
}

// The inputs of a routed group. k and v have one head for each head of q, as a cluster's rows are gathered per head.
struct RoutedCall {
  CoreTensors x;
  CoreArguments arguments;
};
RoutedCall routed_call(const CoreTensors& x, const CoreArguments& arguments) {
  RoutedCall call{x, arguments};
  call.arguments.heads_per_key = 1;
  const int64_t share = arguments.heads_per_key;
  if (share == 1) return call;
  const kernels::KeySharing keys{share, arguments.first_head % share};
  std::vector<at::Tensor> k, v;
  for (int64_t h = 0; h < x.q.size(1); ++h) {
    k.push_back(x.k.select(1, keys.key_head(h)));
    v.push_back(x.v.select(1, keys.key_head(h)));
  }
  call.x.k = at::stack(k, 1), call.x.v = at::stack(v, 1);
  return call;
}

// Sets the given pairs that the heads of this group read; the group begins at arguments.first_head.
void set_given(const GivenArgument& given, const at::Tensor& q, const kernels::KeySharing& keys,
               const AttentionLayer::Group& group, CoreArguments& arguments) {
  if (!given.lists) return;
  if (group.routed) {
    throw Error(
        cat("attention: indices and '", group.spec, "' both choose the keys of a query; leave one of them out"));
  }
  const bool by_head = given.lists->dim() == q.dim();
  arguments.given = by_head ? key_heads_of(*given.lists, keys, arguments.first_head, group.num_heads) : *given.lists;
  arguments.given_block = given.block;
}

// q, k and v of one width. Zeros behind q and k leave the scores unchanged, and zeros behind v give zeros.
struct EvenInputs {
  at::Tensor q, k, v;
  int64_t value_width = 0;
};

at::Tensor padded_to_width(const at::Tensor& x, int64_t width) {
  const int64_t missing = width - x.sym_size(-1).guard_int(__FILE__, __LINE__);
  return missing > 0 ? at::constant_pad_nd(x, {0, missing}) : x;
}

// Returns the padded inputs; also pads the terms of `options` and fills in the scale of the unpadded width.
EvenInputs of_one_width(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionOptions& options) {
  const bool plain = !q.is_nested() && !k.is_nested() && !v.is_nested();
  if (!plain || q.dim() < 3 || v.dim() != k.dim()) return {q, k, v};  // check_inputs() refuses these
  const int64_t width = q.sym_size(-1).guard_int(__FILE__, __LINE__);
  EvenInputs x{q, k, v, v.sym_size(-1).guard_int(__FILE__, __LINE__)};
  const auto rows = static_cast<size_t>(k.dim() - 1);
  const bool alike = k.sym_sizes().slice(0, rows) == v.sym_sizes().slice(0, rows) && k.sym_size(-1) == q.sym_size(-1);
  if (x.value_width == width || !alike) return x;
  if (!options.scale) options.scale = 1 / std::sqrt(static_cast<double>(width));
  const int64_t wide = std::max(width, x.value_width);
  x.q = padded_to_width(q, wide), x.k = padded_to_width(k, wide), x.v = padded_to_width(v, wide);
  for (std::optional<at::Tensor>* term : {&options.offsets.queries, &options.offsets.rows, &options.offsets.values}) {
    if (*term) *term = padded_to_width(**term, wide);
  }
  return x;
}

std::optional<at::Tensor> alpha_of(const AttentionLayer::Group& group, const AttentionOptions& options,
                                   int64_t first_head, int64_t num_heads) {
  if (!group.reads_alpha) return std::nullopt;
  if (!options.alpha || options.alpha->dim() != 1 || options.alpha->size(0) != num_heads) {
    throw Error(cat("attention: ", group.spec, " needs alpha of shape [", num_heads, "], a value a head; got ",
                    options.alpha ? shape(*options.alpha) : "none"));
  }
  return options.alpha->narrow(0, first_head, group.num_heads);
}

// The terms of the heads first ... first + count - 1, converted to the types that the operator takes.
TermTensors terms_of(const OffsetTerms& given, const at::Tensor& q, int64_t first, int64_t count) {
  const auto narrowed = [&](const std::optional<at::Tensor>& x, int64_t dim, at::ScalarType type) {
    if (!x) return at::Tensor();
    const bool has_heads = x->dim() > dim && x->sym_size(dim) == q.sym_size(1) && q.sym_size(1) != count;
    return (has_heads ? x->narrow(dim, first, count) : *x).to(type);
  };
  return {narrowed(given.by_head, 0, term_type(q)), narrowed(given.by_query, 1, term_type(q)),
          narrowed(given.queries, 1, q.scalar_type()), narrowed(given.rows, 1, q.scalar_type())};
}

TermOffsets offsets_of(const OffsetTerms& given) {
  return {.by_head = given.by_head_first,
          .by_query = given.by_query_first,
          .rows = given.rows_first,
          .sums = given.values_first,
          .sum_count = given.values ? given.values->sym_size(0).guard_int(__FILE__, __LINE__) : 0};
}

// Cuts a term to the offsets that the keys of an adaptive span can have, so that a short span costs only what it sees.
// `dim` is the term's dimension of offsets.
void cut_term(int64_t span, int64_t dim, at::Tensor& term, int64_t& first) {
  if (!term.defined()) return;
  const kernels::OffsetRange all = {first, term.sym_size(dim).guard_int(__FILE__, __LINE__)};
  const int64_t begin = all.index(-span), count = all.index(-1) + 1 - begin;
  term = term.narrow(dim, begin, count);
  first += begin;
}

// Sets the terms that a group takes. Routed heads take none: a cluster has an order, but no offsets of the sequence.
void set_terms(const OffsetTerms& given, const at::Tensor& q, const AttentionLayer::Group& group,
               CoreArguments& arguments) {
  const bool takes = !group.routed && (group.span > 0 || !given.for_spans);
  arguments.terms = takes ? terms_of(given, q, arguments.first_head, group.num_heads) : TermTensors{};
  arguments.offsets = takes ? offsets_of(given) : TermOffsets{};
  if (!takes || group.span == 0) return;
  cut_term(group.span, 1, arguments.terms.by_head, arguments.offsets.by_head);
  cut_term(group.span, 0, arguments.terms.rows, arguments.offsets.rows);
}

void check_offset_terms(const OffsetTerms& given, const at::Tensor& q, const c10::SymInt& value_width) {
  // The shape is checked here, because a single head group would accept the terms of all heads.
  if (given.by_head && (given.by_head->dim() != 2 || given.by_head->sym_size(0) != q.sym_size(1))) {
    throw Error(cat("attention: offset_bias has shape ", shape(*given.by_head), "; expected [", q.sym_size(1),
                    ", offsets] or q's shape with the offsets in place of D, for q of shape ", shape(q)));
  }
  if (!given.values) return;
  const at::Tensor& values = *given.values;
  const bool fits = values.dim() == 3 && values.sym_size(0) > 0 && values.sym_size(2) == value_width &&
                    (values.sym_size(1) == 1 || values.sym_size(1) == q.sym_size(1));
  if (fits && at::isFloatingType(values.scalar_type()) && values.device() == q.device()) return;
  throw Error(cat("attention: offset_values is ", values.scalar_type(), ' ', shape(values), " on ",
                  values.device().str(), "; expected [offsets, H or 1, D] on ", q.device().str(), " for q of shape ",
                  shape(q)));
}

// Returns out + sums . values; values [count, H or 1, D] are those of the heads that were called.
at::Tensor with_offset_values(const CalledOutput& called, const at::Tensor& values, const OffsetTerms& terms) {
  if (terms.product != nullptr && called.sums.dim() == 3 && values.size(1) == 1) {
    const at::Tensor all = values.select(1, 0).to(called.sums.scalar_type());
    const at::Tensor product = terms.product(called.sums.flatten(0, 1), all);
    return called.out + product.view(called.out.sizes()).to(called.out.scalar_type());
  }
  const at::Tensor rows = values.to(called.sums.scalar_type()).transpose(0, 1);  // [H or 1, count, D]
  const bool packed = called.out.dim() == 3;
  const at::Tensor product =
      packed ? at::matmul(called.sums.transpose(0, 1), rows).transpose(0, 1) : at::matmul(called.sums, rows);
  return called.out + product.to(called.out.scalar_type());
}

// Splits x into the heads of each group, in one operation, so that its gradient is one concatenation.
std::vector<at::Tensor> split_heads(const at::Tensor& x, const AttentionLayer& layer) {
  if (layer.groups.size() == 1) return {x};
  std::vector<int64_t> sizes;
  for (const AttentionLayer::Group& group : layer.groups) sizes.push_back(group.num_heads);
  return x.split_with_sizes(sizes, 1);
}

// Hands out the inputs of a layer's routed groups, one group after the other.
class RoutedGroups {
 public:
  RoutedGroups(const AttentionLayer& layer, const AttentionOptions& options)
      : inputs_(options.routing != nullptr ? *options.routing : kNone) {
    for (const AttentionLayer::Group& group : layer.groups) {
      if (group.routed && group.routed->route->has_centroids()) heads_ += group.num_heads;
    }
  }
  // Returns the next group's output if the caller gave one.
  std::optional<at::Tensor> given() {
    if (inputs_.outputs.empty()) return std::nullopt;
    return inputs_.outputs.at(next_output_++);
  }
  RoutedGroup next(const AttentionLayer::Group& group) {
    RoutedGroup out{*group.routed, inputs_, {}, next_head_};
    if (!group.routed->route->has_centroids()) return out;
    const at::Tensor& all = inputs_.centroids;
    const int64_t clusters = group.routed->route->clusters;
    if (!all.defined() || all.dim() != 3 || all.size(0) != heads_ || all.size(1) < clusters)
      throw Error(cat("attention: ", group.spec, " needs centroids of ", heads_, " heads and ", clusters,
                      " clusters, which models learn; got ", all.defined() ? shape(all) : "none"));
    out.centroids = all.narrow(0, next_head_, group.num_heads).narrow(1, 0, clusters);
    next_head_ += group.num_heads;
    return out;
  }

 private:
  static const RoutingInputs kNone;
  const RoutingInputs& inputs_;
  int64_t heads_ = 0, next_head_ = 0;
  size_t next_output_ = 0;
};
const RoutingInputs RoutedGroups::kNone;

}  // namespace

at::Tensor attention(const at::Tensor& given_q, const at::Tensor& given_k, const at::Tensor& given_v,
                     const std::string& spec, const AttentionOptions& given) {
  const kernels::KeySharing keys = key_sharing(given_q, given_k, given);
  AttentionOptions options = given;
  const auto [q, k, v, value_width] = of_one_width(given_q, given_k, given_v, options);
  check_inputs({q, k, v}, keys);
  check_options({q, k, v}, options);
  const int64_t num_heads = q.sym_size(1).guard_int(__FILE__, __LINE__);
  const std::shared_ptr<const AttentionLayer> layer = resolved_layer(spec, num_heads);
  check_read(*layer, spec, options);
  check_offset_terms(given.offsets, q, value_width);
  CoreArguments arguments = arguments_of(q, k, *layer, options);
  arguments.heads_per_key = keys.share;
  const GivenArgument lists = given_argument({q, k, v}, options);
  const bool whole = layer->groups.size() == 1;
  RoutedGroups routed(*layer, options);
  std::vector<at::Tensor> outputs;
  // Query heads of two neighbouring groups may share a head of keys, so shared keys are cut group by group.
  using Parts = std::vector<at::Tensor>;
  const bool apart = whole || keys.share == 1;
  const Parts queries = split_heads(q, *layer), key_parts = apart ? split_heads(k, *layer) : Parts{},
              value_parts = apart ? split_heads(v, *layer) : Parts{};
  for (const AttentionLayer::Group& group : layer->groups) {
    const auto heads = [&](const at::Tensor& x) {
      return whole ? x : x.narrow(1, arguments.first_head, group.num_heads);
    };
    const size_t at = outputs.size();
    arguments.spec = group.spec;
    arguments.alpha = alpha_of(group, options, arguments.first_head, num_heads);
    set_terms(options.offsets, q, group, arguments);
    set_given(lists, q, keys, group, arguments);
    const auto of_keys = [&](const at::Tensor& x, const std::vector<at::Tensor>& parts) {
      return parts.empty() ? key_heads_of(x, keys, arguments.first_head, group.num_heads) : parts[at];
    };
    const CoreTensors own{queries[at], of_keys(k, key_parts), of_keys(v, value_parts)};
    if (group.routed) {
      const std::optional<at::Tensor> ready = routed.given();
      const RoutedCall call = routed_call(own, arguments);
      outputs.push_back(ready ? *ready : routed_attention(call.x, call.arguments, routed.next(group)));
    } else {
      const CalledOutput called = call_forward(own, arguments);
      outputs.push_back(called.out);
      if (const auto& values = options.offsets.values) {
        outputs.back() =
            with_offset_values(called, values->sym_size(1) == 1 ? *values : heads(*values), options.offsets);
      }
    }
    arguments.first_head += group.num_heads;
  }
  // Heads lie side by side in memory in both layouts: concatenated this way, the norm and the projection need no copy.
  const bool packed = q.dim() == 3;
  at::Tensor out = whole ? outputs[0] : at::Tensor();
  if (!whole) {
    if (!packed) {
      for (at::Tensor& x : outputs) x = x.transpose(1, 2);
    }
    out = at::cat(outputs, -2);
    if (!packed) out = out.transpose(1, 2);
  }
  if (out.sym_size(-1) != value_width) out = out.narrow(-1, 0, value_width);
  return norm_over_heads(layer->norm, out, {options.gain, options.gate, options.bias});
}

at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, const std::string& spec,
                             const AttentionOptions& options) {
  // No kind of derivative flows through these weights.
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  const kernels::KeySharing keys = key_sharing(q, k, options);
  check_inputs({q, k, k}, keys);
  check_options({q, k, k}, options);
  const std::shared_ptr<const AttentionLayer> layer = resolved_layer(spec, q.size(1));
  check_read(*layer, spec, options);
  check_offset_terms(options.offsets, q, q.size(-1));
  CoreArguments arguments = arguments_of(q, k, *layer, options);
  arguments.heads_per_key = keys.share;
  const GivenArgument lists = given_argument({q, k, k}, options);
  RoutedGroups routed(*layer, options);
  std::vector<at::Tensor> weights;
  for (const AttentionLayer::Group& group : layer->groups) {
    arguments.spec = group.spec;
    arguments.alpha = alpha_of(group, options, arguments.first_head, q.size(1));
    set_terms(options.offsets, q, group, arguments);
    set_given(lists, q, keys, group, arguments);
    const at::Tensor own_keys = key_heads_of(k, keys, arguments.first_head, group.num_heads);
    arguments.offsets.sum_count = 0;
    const CoreTensors own{q.narrow(1, arguments.first_head, group.num_heads), own_keys, own_keys};
    if (group.routed) {
      const RoutedCall call = routed_call(own, arguments);
      weights.push_back(routed_weights(call.x, call.arguments, routed.next(group)));
    } else {
      weights.push_back(core_weights(own, arguments));
    }
    arguments.first_head += group.num_heads;
  }
  return at::cat(weights, 1);
}

void init() {}

}  // namespace fovea::ops
