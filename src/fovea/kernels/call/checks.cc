#include "fovea/kernels/call/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/forced.h"
#include "fovea/kernels/call/lists.h"

namespace fovea::kernels {
namespace {

using Element = TensorView::Element;

// The heads of k that q's read; known wherever heads share keys.
int64_t key_heads(const TensorView& q, const KeySharing& keys) {
  if (!keys.any()) return q.heads();
  return q.heads() == 0 ? 0 : keys.key_head(q.heads() - 1) + 1;
}

bool have_equal_rows(const TensorView& x, const TensorView& like) {
  return x.dim() == like.dim() && std::ranges::equal(x.sizes.first(x.dim() - 1), like.sizes.first(like.dim() - 1));
}

const char* learned_name(const Transform& transform) { return learns_sink(transform) ? "sinks" : "alpha"; }

// Each tensor lies where it is read.
void check_devices(const TensorView& q, const LayerViews& options) {
  enum class Place : uint8_t { kDevice, kCpu };
  const auto check = [&](const char* name, const std::optional<TensorView>& x, Place place) {
    const bool on_cpu = place == Place::kCpu;
    if (!x || x->device == q.device || (on_cpu && x->on_cpu)) return;  // vectors of lengths are checked where read
    throw Error(cat("attention: ", name, " is on ", x->device_name(), "; expected it on ",
                    on_cpu ? std::string("cpu") : q.device_name()));
  };
  check("alpha", options.alpha, Place::kDevice), check("sinks", options.sinks, Place::kDevice);
  check("gain", options.gain, Place::kDevice);
  check("gate", options.gate, Place::kDevice), check("bias", options.bias, Place::kDevice);
  const SequenceVectors& vectors = options.vectors;
  check("q_offsets", vectors.q_offsets, Place::kCpu), check("k_offsets", vectors.k_offsets, Place::kCpu);
  check("k_begins", vectors.k_begins, Place::kCpu), check("k_tokens", vectors.k_tokens, Place::kCpu);
  check("q_lengths", vectors.q_lengths, Place::kCpu), check("k_lengths", vectors.k_lengths, Place::kCpu);
  check("dropout_seed", options.drawn_seed, Place::kCpu);
}

Element term_element(const TensorView& q) {
  return q.element == Element::kFloat64 ? Element::kFloat64 : Element::kFloat32;
}

struct WantedTensor {
  std::string_view name, expected;
  Element element;
  bool fits;
};

void check_term(const TensorView& x, const TensorView& q, const WantedTensor& wanted) {
  if (wanted.fits && x.element == wanted.element && x.device == q.device && x.dense) return;
  const bool as_q = wanted.element == q.element;
  const std::string type = as_q ? q.type_name() : wanted.element == Element::kFloat64 ? "Double" : "Float";
  throw Error(cat("attention: ", wanted.name, " is ", x.type_name(), ' ', shape(x), " on ", x.device_name(),
                  "; expected ", type, ' ', wanted.expected, " on ", q.device_name(), " for q of shape ", shape(q)));
}

// [.., count] of q's queries, with q's heads left out, or they or those of k in their place.
bool lists_fit(const TensorView& lists, bool by_head, const QkvViews& x) {
  const TensorView& q = x.q;
  if (lists.dim() + (by_head ? 0 : 1) != q.dim() || lists.sizes[0] != q.sizes[0]) return false;
  if (by_head && lists.heads() != x.k.heads() && lists.heads() != q.heads()) return false;
  return q.dim() == 3 || lists.sizes[lists.dim() - 2] == q.sizes[2];
}

}  // namespace

std::string shape(const TensorView& x) {
  std::vector<std::string> sizes;
  for (const int64_t size : x.sizes) sizes.push_back(cat(size));
  return cat('[', join(sizes, ", "), ']');
}

void refuse_layout(std::string_view name, std::string_view layout) {
  throw Error(cat("attention: ", name, " is ", layout,
                  "; expected a dense tensor, sequences of several lengths packed as [T, H, D] with q_offsets"));
}

void check_layout(const QkvViews& x) {
  if (!x.q.dense) refuse_layout("q", x.q.layout_name());
  if (!x.k.dense) refuse_layout("k", x.k.layout_name());
  if (!x.v.dense) refuse_layout("v", x.v.layout_name());
  if (x.q.dim() != 3 && x.q.dim() != 4) {
    throw Error(cat("attention: q has shape ", shape(x.q), "; expected [T, H, D] or [B, H, N, D]"));
  }
}

KeySharing key_sharing(const TensorView& q, const TensorView& k) {
  if (q.dim() < 3 || k.dim() != q.dim() || q.heads() == k.heads()) return {};
  if (k.heads() < 1 || q.heads() % k.heads() != 0) {
    throw Error(cat("attention: q has ", q.heads(), " heads and k ", k.heads(),
                    "; with enable_gqa expected a number of heads of k that divides that of q"));
  }
  return {.share = q.heads() / k.heads()};
}

void check_inputs(const QkvViews& x, const KeySharing& keys, ValueWidth width) {
  check_layout(x);
  const auto& [q, k, v] = x;
  if (k.dim() != q.dim() || !have_equal_rows(v, k) || (width == ValueWidth::kOfKeys && v.width() != k.width()) ||
      k.heads() != key_heads(q, keys) || k.width() != q.width() || (q.dim() == 4 && k.sizes[0] != q.sizes[0])) {
    throw Error(cat("attention: q has shape ", shape(q), ", k ", shape(k), " and v ", shape(v),
                    "; expected equal heads, head sizes and batches, and k like v",
                    q.dim() == k.dim() && k.heads() < q.heads() ? "; fewer heads of k and v go with enable_gqa" : ""));
  }
  if (k.element != q.element || v.element != q.element || k.device != q.device || v.device != q.device ||
      !q.is_floating()) {
    const auto of = [](const TensorView& t) { return cat(t.type_name(), " on ", t.device_name()); };
    throw Error(cat("attention: q is ", of(q), ", k ", of(k), " and v ", of(v),
                    "; expected one type (float32, bfloat16, float16 or float64) and one device"));
  }
}

void check_scale(std::optional<double> scale, std::string_view caller) {
  // Kernels take it as float32.
  if (!scale || std::abs(*scale) <= std::numeric_limits<float>::max()) return;
  throw Error(cat(caller, ": scale is ", *scale, "; expected a finite number of float32, or none for 1 / sqrt(D)"));
}

void check_rate(double rate, std::string_view what) {
  // Elements that stay are divided by 1 - rate, in float32.
  if (!(rate >= 0 && static_cast<float>(rate) < 1)) throw Error(cat(what, ' ', rate, " is not in [0, 1)"));
}

void check_learned_shape(const std::optional<TensorView>& learned, const AttentionSpec& spec, int64_t num_heads) {
  if (learned && learned->dim() == 1 && learned->sizes[0] == num_heads) return;
  throw Error(cat("attention: ", print(spec), " needs ", learned_name(spec.transform), " of shape [", num_heads,
                  "], a value a head; got ", learned ? shape(*learned) : "none"));
}

void check_learned(const TensorView& learned, const Transform& transform, int64_t first_head) {
  if (!learned.is_floating()) {
    throw Error(cat("attention: ", learned_name(transform), " is ", learned.type_name(), "; expected a floating type"));
  }
  if (!learned.on_cpu || learned.element != Element::kFloat32 || learns_sink(transform)) return;
  for (int64_t h = 0; h < learned.sizes[0]; ++h) {
    const float value = static_cast<const float*>(learned.data)[h * learned.strides[0]];
    if (value >= static_cast<float>(kLeastAlpha) && value <= static_cast<float>(kGreatestAlpha)) continue;
    throw Error(cat("attention: alpha of head ", first_head + h, " is ", value, "; expected one in [", kLeastAlpha,
                    ", ", kGreatestAlpha, "]"));
  }
}

void check_terms(const TensorView& q, const TermViews& terms) {
  if (const auto& x = terms.by_head) {
    const bool fits = x->dim() == 2 && x->sizes[0] == q.heads() && x->sizes[1] > 0;
    check_term(*x, q, {"offset_bias by head", "[H, offsets]", term_element(q), fits});
  }
  if (const auto& x = terms.by_query) {
    const bool fits = have_equal_rows(*x, q) && x->width() > 0;
    check_term(*x, q, {"offset_bias by query", "q's shape with the offsets in place of D", term_element(q), fits});
  }
  if (terms.queries.has_value() != terms.rows.has_value()) {
    throw Error("attention: offset_queries and offset_rows go together; give both");
  }
  if (!terms.rows) return;
  const TensorView& rows = *terms.rows;
  const bool fits = rows.dim() == 3 && rows.sizes[0] > 0 && rows.sizes[2] == q.width() &&
                    (rows.heads() == 1 || rows.heads() == q.heads());
  check_term(*terms.queries, q,
             {"offset_queries", "q's shape", q.element, std::ranges::equal(terms.queries->sizes, q.sizes)});
  check_term(rows, q, {"offset_rows", "[offsets, H or 1, D]", q.element, fits});
}

void check_sums(const TensorView& q, const TensorView& sums, int64_t count) {
  const bool fits = have_equal_rows(sums, q) && sums.width() == count;
  check_term(sums, q, {"sums", "q's shape with the offsets in place of D", term_element(q), fits});
}

void check_layer_terms(const TensorView& q, const TermViews& terms, const std::optional<TensorView>& values,
                       int64_t value_width) {
  // The shape is checked here, because a single head group would accept the terms of all heads.
  if (const auto& x = terms.by_head; x && (x->dim() != 2 || x->sizes[0] != q.heads())) {
    throw Error(cat("attention: offset_bias has shape ", shape(*x), "; expected [", q.heads(),
                    ", offsets] or q's shape with the offsets in place of D, for q of shape ", shape(q)));
  }
  for (const auto& x : {terms.by_head, terms.by_query, terms.queries, terms.rows}) {
    if (x && x->device != q.device) check_terms(q, terms);  // tells of the first such term
  }
  if (!values) return;
  const bool fits = values->dim() == 3 && values->sizes[0] > 0 && values->sizes[2] == value_width &&
                    (values->heads() == 1 || values->heads() == q.heads());
  if (fits && values->is_floating() && values->device == q.device) return;
  throw Error(cat("attention: offset_values is ", values->type_name(), ' ', shape(*values), " on ",
                  values->device_name(), "; expected [offsets, H or 1, D] on ", q.device_name(), " for q of shape ",
                  shape(q)));
}

GivenPairs checked_lists(const QkvViews& x, const ListViews& pairs) {
  if (!pairs.lists) return {};
  const TensorView& lists = *pairs.lists;
  const bool by_head = pairs.by_head;
  if (pairs.block < 1 || pairs.block > std::numeric_limits<int32_t>::max()) {
    throw Error(cat("attention: block_size is ", pairs.block, "; expected the keys of a block, 1 or more"));
  }
  if (lists_fit(lists, by_head, x) && lists.is_integer() && lists.device == x.q.device && lists.dense) {
    const ListHeads heads = !by_head                       ? ListHeads::kShared
                            : lists.heads() == x.k.heads() ? ListHeads::kOfKeys
                                                           : ListHeads::kOfQueries;
    return {.block = pairs.block, .count = lists.width(), .heads = heads};
  }
  const bool packed = x.q.dim() == 3;
  const std::string expected =
      by_head ? cat(packed ? "[T_q, H_kv or H, k]" : "[B, H_kv or H, N_q, k]", ", a list for each head of k or q,")
              : cat(packed ? "[T_q, k]" : "[B, N_q, k]", ", shared by all heads,");
  throw Error(cat("attention: ", name_of_lists(by_head), " is ", lists.type_name(), ' ', shape(lists), " on ",
                  lists.device_name(), "; expected int32 or int64 ", expected, " on ", x.q.device_name(),
                  " for q of shape ", shape(x.q), " and k of shape ", shape(x.k)));
}

ListViews one_of(const NamedLists& named) {
  const auto& [indices, block_indices, block_size] = named;
  if (indices && block_indices) {
    throw Error("attention: got indices and block_indices; expected one of them, as each names all pairs of a query");
  }
  if (!block_indices && block_size != kUsualBlock) {
    throw Error(cat("attention: got block_size ", block_size, " without block_indices; leave it out"));
  }
  if (block_indices) return {.lists = block_indices, .block = block_size, .by_head = true};
  return {.lists = indices, .block = indices ? 1 : 0};
}

void check_options(const QkvViews& x, const LayerViews& options, Graph graph) {
  check_devices(x.q, options);
  if (const auto& drawn = options.drawn_seed; drawn && (drawn->dim() != 0 || drawn->element != Element::kInt64)) {
    throw Error(cat("attention: dropout_seed is ", drawn->type_name(), " of shape ", shape(*drawn),
                    "; expected int64 of no dimension"));
  }
  const SequenceVectors& v = options.vectors;
  const bool packed = x.q.dim() == 3, ranges = v.k_begins.has_value();
  if (ranges && (!packed || !v.q_offsets || !v.k_lengths || v.k_offsets)) {
    throw Error("attention: k_begins are for packed tensors, with q_offsets and k_lengths, in place of k_offsets");
  }
  if (ranges && graph == Graph::kRecorded) {
    throw Error("attention: k_begins have no gradients; give k_offsets, or call without gradients");
  }
  if (packed ? v.q_lengths || (v.k_lengths && !ranges) : v.q_offsets || v.k_offsets) {
    throw Error(cat("attention: got ", packed
                                           ? "lengths for packed tensors [T, H, D]; give q_offsets and k_offsets"
                                           : "offsets for dense tensors [B, H, N, D]; give q_lengths and k_lengths"));
  }
}

void check_read(const AttentionLayer& layer, const LayerViews& options) {
  const auto check = [&](const char* name, const std::optional<TensorView>& given, bool reads) {
    if (given && !reads)
      throw Error(cat("attention: got ", name, ", which '", layer.text, "' does not have; leave it out"));
  };
  check("gain", options.gain, layer.reads.gain), check("gate", options.gate, layer.reads.gate);
  check("bias", options.bias, layer.reads.bias), check("alpha", options.alpha, layer.reads.alpha);
  check("sinks", options.sinks, layer.reads.sinks);
}

void refuse_tangents(std::string_view caller) {
  throw Error(cat(caller, ": has no forward-mode derivatives; use reverse mode, backward() or torch.autograd.grad"));
}

void refuse_second_derivatives(std::string_view caller) {
  throw Error(cat(caller, ": has no second derivatives; call backward() or grad() without create_graph"));
}

void check_differentiable(const SequenceVectors& vectors) {
  if (vectors.k_begins) throw Error("attention: no gradients with k_begins; give k_offsets");
}

void check_same_tokens(std::span<const Sequence> sequences) {
  for (const Sequence& s : sequences) {
    if (s.q_begin == s.k_begin && s.q_length == s.k_length) continue;
    throw Error(cat("attention: routed with keys that are the queries got ", s.q_length, " queries and ", s.k_length,
                    " keys in a sequence; expected the same tokens"));
  }
}

double reference_mib() {
  constexpr double kUsual = 256, kMost = 1 << 30;
  const char* text = std::getenv("FOVEA_REFERENCE_MIB");
  if (text == nullptr || *text == '\0') return kUsual;
  const std::optional<double> given = number_in<double>(text);
  if (given && *given > 0 && *given <= kMost) return *given;
  throw Error(cat("FOVEA_REFERENCE_MIB: got '", text,
                  "'; expected the MiB of a block of scores, above 0; leave it out for ", kUsual));
}

void refuse_row(const ReferenceRow& row, double allowed) {
  throw Error(cat("attention: one query with ", row.keys, " keys",
                  row.heads > 1 ? cat(" under ", row.heads, " heads") : std::string(), " takes ", fixed(row.needed, 2),
                  " MiB in the reference; FOVEA_REFERENCE_MIB allows ", fixed(allowed, 2), "; set it to at least ",
                  shortest(std::ceil(row.needed))));
}

void check_kernel(std::string_view in_forward) {
  const std::string_view now = forced_kernel();
  if (now == in_forward) return;
  throw Error(cat("attention: FOVEA_KERNEL was '", in_forward, "' in forward and is '", now,
                  "' in backward; change it between steps only"));
}

void check_norm(const Norm& norm, const LayerViews& options, int64_t width) {
  if (std::holds_alternative<NoNorm>(norm)) return;
  const auto check = [&](const char* name, const std::optional<TensorView>& x) {
    if (!x) return;
    if (x->dim() != 1 || x->sizes[0] != width) {
      throw Error(
          cat("attention: ", name, " has shape ", shape(*x), "; expected [", width, "], heads times head size"));
    }
    if (!x->is_floating()) {
      throw Error(cat("attention: ", name, " is ", x->type_name(), "; expected a floating type"));
    }
  };
  check("gain", options.gain), check("gate", options.gate), check("bias", options.bias);
  if (parts_of(norm).gate && !options.gate) {
    throw Error(cat("attention: ", name_of(norm), " needs gate of shape [heads times head size]"));
  }
}

void check_choice(const AttentionLayer::Group& group, const ListViews& lists, const SequenceVectors& vectors,
                  AttentionKind kind) {
  if (!group.chooses_keys()) return;
  validate(group.spec, kind);
  if (lists.lists) {
    throw Error(
        cat("attention: indices and '", print(group.spec), "' both choose the keys of a query; leave one of them out"));
  }
  if (group.is_routed() && vectors.k_begins)
    throw Error("attention: routed reads whole sequences; give k_offsets, not k_begins");
}

}  // namespace fovea::kernels
