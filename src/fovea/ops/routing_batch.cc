#include "fovea/ops/routing_batch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/routing_entry.h"

namespace fovea::ops {
namespace {

using kernels::Sequence;
using kernels::TokenRange;

std::vector<TokenRange> ranges_of(const std::vector<Sequence>& sequences, int64_t Sequence::*begin,
                                  int64_t Sequence::*length) {
  std::vector<TokenRange> ranges;
  for (const Sequence& s : sequences) ranges.push_back({s.*begin, s.*length});
  return ranges;
}

at::Tensor offsets_tensor(const std::vector<int64_t>& offsets) {
  at::Tensor out = at::empty({std::ssize(offsets)}, at::kLong);
  std::ranges::copy(offsets, out.mutable_data_ptr<int64_t>());
  return out;
}

void set_members(RoutedTokens& side) {
  side.members = c10::make_intrusive<MemberRows>(side.lists, side.tokens(), side.heads());
  side.offsets = offsets_tensor(side.lists.offsets);
}

RoutedTokens routed_tokens(const at::Tensor& x, std::vector<TokenRange> ranges, const RoutedGroup& group,
                           const std::vector<uint64_t>& streams) {
  RoutedTokens side;
  // Queries of memory are those of the keys, of which they take the vectors.
  if (has_row_loops(x) && !group.inputs.memory_queries.defined()) side.given = x;
  side.vectors = routing_vectors(side.given.defined() ? x.detach() : x);
  side.counted = side.ranges = std::move(ranges);
  if (x.size(0) * x.size(1) > std::numeric_limits<int32_t>::max())
    throw Error(cat("attention: ", x.size(0), " tokens of ", x.size(1), " heads are too many for ", Routed::kName));
  side.lists = members_of(side.vectors, side.ranges, group, streams, &side.nearest);
  set_members(side);
  return side;
}

// `ranges` of keys of their own become those of the last ones, as many as the queries.
void leave_out_memory(std::vector<TokenRange>& ranges, const std::vector<Sequence>& sequences) {
  for (size_t b = 0; b < ranges.size(); ++b) {
    ranges[b].begin += sequences[b].k_length - sequences[b].q_length;
    ranges[b].length = sequences[b].q_length;
  }
}

// x [T_k, H, D] of the keys -> [T_q, H, D] of the queries, the last tokens of each sequence.
at::Tensor last_rows(const at::Tensor& x, const std::vector<Sequence>& sequences) {
  const auto heads = static_cast<int32_t>(x.size(1));
  kernels::MemberLists rows;
  for (const Sequence& s : sequences) {
    for (int64_t i = 0; i < s.q_length * heads; ++i)
      rows.rows.push_back(static_cast<int32_t>((s.k_begin + s.k_length - s.q_length) * heads + i));
  }
  return gather_rows(x, c10::make_intrusive<MemberRows>(rows, x.size(0), heads)).view({-1, heads, x.size(2)});
}

// With memory, the queries among the tokens of the keys. Their clusters are those of the keys, so that a token is in
// the same cluster as either.
RoutedTokens queries_among(const RoutedTokens& keys, const std::vector<Sequence>& sequences) {
  RoutedTokens side;
  side.vectors = last_rows(keys.vectors, sequences);
  side.counted = side.ranges = ranges_of(sequences, &Sequence::q_begin, &Sequence::q_length);
  const int64_t heads = side.heads(), tokens = side.tokens(), count = std::ssize(sequences);
  const int64_t lists = std::ssize(keys.lists.offsets) - 1, clusters = count > 0 ? lists / (heads * count) : 1;
  side.nearest.resize(static_cast<size_t>(heads * tokens));
  for (int64_t h = 0; h < heads; ++h) {
    for (const Sequence& s : sequences) {
      const auto first = keys.nearest.begin() + h * keys.tokens() + s.k_begin + s.k_length - s.q_length;
      std::copy_n(first, s.q_length, side.nearest.begin() + h * tokens + s.q_begin);
    }
  }
  side.lists.offsets = {0};
  for (int64_t l = 0; l < lists; ++l) {
    const Sequence& s = sequences[static_cast<size_t>(l / clusters % count)];
    const int64_t begin = s.k_begin + s.k_length - s.q_length;
    for (int64_t i = keys.lists.offsets[static_cast<size_t>(l)]; i < keys.lists.offsets[static_cast<size_t>(l) + 1];
         ++i) {
      const int64_t row = keys.lists.rows[static_cast<size_t>(i)] - begin * heads;
      if (row >= 0) side.lists.rows.push_back(static_cast<int32_t>(s.q_begin * heads + row));
    }
    side.lists.offsets.push_back(std::ssize(side.lists.rows));
  }
  set_members(side);
  return side;
}

void check_lengths(const RoutedBatch& batch, const RoutedGroup& group) {
  const bool shared = batch.shared && !group.inputs.memory_queries.defined();
  if (!shared && !batch.limits_own_keys) return;
  if (shared) kernels::check_same_tokens(batch.sequences);
  for (const Sequence& s : batch.sequences) {
    const bool same_length = s.q_length == s.k_length;
    if (batch.limits_own_keys && !same_length && (s.q_length > s.k_length || !group.spec.route()->is_causal()))
      throw Error(
          cat("attention '", print(group.spec), "': got ", s.q_length, " queries and ", s.k_length,
              " keys in a sequence; expected as many of each, or of routed(c,w,causal) more keys, of which the ",
              "last are the queries'"));
  }
}

// The positions in their sequence, which begins at token `first`, of the members of a list.
std::vector<int32_t> positions_of(const RoutedTokens& side, int64_t list, int64_t first) {
  const auto l = static_cast<size_t>(list);
  std::vector<int32_t> positions;
  for (int64_t i = side.lists.offsets[l]; i < side.lists.offsets[l + 1]; ++i)
    positions.push_back(static_cast<int32_t>(side.lists.rows[static_cast<size_t>(i)] / side.heads() - first));
  return positions;
}

// RoutedBatch::seen.
at::Tensor limited_keys(const RoutedBatch& batch, const Routed& route) {
  const RoutedTokens &queries = *batch.queries, &keys = *batch.keys;
  const int64_t lists = std::ssize(queries.lists.offsets) - 1, count = std::ssize(batch.sequences);
  std::vector<SeenKeys> seen;
  int64_t most = 1;
  for (int64_t l = 0; l < lists; ++l) {
    const Sequence& s = batch.sequences[static_cast<size_t>(l / route.clusters % count)];
    const std::vector<int32_t> own = positions_of(keys, l, s.k_begin);
    for (const int32_t position : positions_of(queries, l, s.q_begin)) {
      seen.push_back(seen_keys(own, position + s.k_length - s.q_length, route));
      most = std::max(most, seen.back().end - seen.back().begin);
    }
  }
  at::Tensor places = at::full({std::ssize(seen), most}, -1, at::kInt);
  auto* place = places.mutable_data_ptr<int32_t>();
  for (const auto& [begin, end] : seen) {
    std::iota(place, place + (end - begin), static_cast<int32_t>(begin));
    place += most;
  }
  return places;
}

// The queries of all tokens of the keys, for the heads of the group: [T_k, H, D].
at::Tensor queries_with_memory(const CoreTensors& x, const RoutedBatch& batch, const RoutedGroup& group) {
  if (!batch.shared || !group.spec.route()->is_causal())
    throw Error(cat("attention '", print(group.spec),
                    "': its clusters choose among the queries alone, so they have no ", "memory; use routed(",
                    group.spec.route()->clusters, ",", group.spec.route()->window, ",causal)"));
  const at::Tensor& all = group.inputs.memory_queries;
  const int64_t heads = x.q.size(1);
  const bool fits = x.q.dim() == 3 && all.dim() == 3 && all.size(0) == x.k.size(0) && all.size(2) == x.q.size(2) &&
                    all.size(1) >= group.first_head + heads && all.scalar_type() == x.q.scalar_type();
  if (!fits)
    throw Error(cat("attention: queries of memory are ", all.scalar_type(), ' ', shape(all), "; expected ",
                    x.q.scalar_type(), " [", x.k.size(0), ", heads with centroids, ", x.q.size(2),
                    "], packed, for k of shape ", shape(x.k)));
  for (const Sequence& s : batch.sequences) {
    if (s.q_length > s.k_length)
      throw Error(cat("attention: got ", s.q_length, " queries and ", s.k_length, " keys in a sequence with memory; ",
                      "expected at least as many keys, of which the last are the queries"));
  }
  return all.narrow(1, group.first_head, heads);
}

// The rows of a side's members; `measured` gets its measures if the centroids are defined.
EnteredRows enter(const RoutedTokens& side, const at::Tensor& centroids, MeasuredSide& measured) {
  const bool measures = centroids.defined();
  const NearestOfTokens tokens = measures ? NearestOfTokens{side.nearest, side.counted} : NearestOfTokens();
  if (measures) measured.clusters = measure_clusters(side.vectors, centroids, tokens);
  EnteredRows rows;
  if (side.given.defined()) {
    auto entry = c10::make_intrusive<ClusterEntry>();
    entry->members = side.members, entry->centroids = centroids;
    entry->tokens = tokens, entry->distance = measured.clusters.mean_square;
    rows = enter_clusters(side.given, side.vectors, entry);
  } else {
    rows.q = rows.k = gather_rows(side.vectors, side.members);
    if (measures) rows.distance = distance_to_centroids(side.vectors, centroids, tokens);
  }
  measured.distance = rows.distance;
  return rows;
}

}  // namespace

SeenKeys seen_keys(std::span<const int32_t> key_positions, int64_t query, const Routed& route) {
  const int64_t end = std::ranges::upper_bound(key_positions, query) - key_positions.begin();
  return {route.is_causal() ? std::max<int64_t>(0, end - route.window) : 0, end};
}

RoutedBatch routed_batch(const CoreTensors& x, const LayerCall& arguments, const RoutedGroup& group) {
  RoutedBatch batch;
  batch.kind = arguments.kind;
  batch.shared = shares_keys(*group.spec.route(), batch.kind, group.inputs.keys);
  batch.limits_own_keys = limits_own_keys(*group.spec.route(), batch.kind, group.inputs.keys);
  batch.sequences = sequences_of({x.q, x.k}, arguments);
  const bool with_memory = group.inputs.memory_queries.defined();
  check_lengths(batch, group);
  const auto side = [&](const at::Tensor& tokens, int64_t Sequence::*begin, int64_t Sequence::*length, bool own_keys) {
    const std::vector<uint64_t> streams = member_streams(arguments, tokens.size(1), own_keys);
    RoutedTokens out = routed_tokens(token_rows(tokens), ranges_of(batch.sequences, begin, length), group, streams);
    if (own_keys && batch.limits_own_keys) leave_out_memory(out.counted, batch.sequences);
    return std::make_shared<const RoutedTokens>(std::move(out));
  };
  if (with_memory) {
    batch.keys = side(queries_with_memory(x, batch, group), &Sequence::k_begin, &Sequence::k_length, false);
    batch.queries = std::make_shared<const RoutedTokens>(queries_among(*batch.keys, batch.sequences));
  } else {
    batch.queries = side(x.q, &Sequence::q_begin, &Sequence::q_length, false);
    batch.keys = batch.shared ? batch.queries : side(x.k, &Sequence::k_begin, &Sequence::k_length, true);
  }
  if (batch.limits_own_keys) batch.seen = limited_keys(batch, *group.spec.route());
  batch.spec = spec_within_cluster(group.spec, batch.kind, group.inputs);
  batch.scale = scale_within_cluster(group.inputs, x.q.size(-1));
  return batch;
}

MemberInputs member_inputs(const RoutedBatch& batch, const at::Tensor& v, const at::Tensor& centroids) {
  MemberInputs out;
  const EnteredRows queries = enter(*batch.queries, centroids, out.queries);
  out.rows.q = queries.q, out.rows.k = queries.k;
  if (!batch.same_tokens()) out.rows.k = enter(*batch.keys, batch.shared ? at::Tensor() : centroids, out.own_keys).k;
  out.rows.v = gather_rows(v, batch.keys->members);
  return out;
}

at::Tensor own_values(const RoutedBatch& batch, const at::Tensor& v) {
  return batch.same_tokens() ? v : last_rows(v, batch.sequences);
}

void for_each_call(const RoutedBatch& batch, const CoreTensors& rows, const LayerCall& given, const VisitCall& visit) {
  LayerCall arguments = layer_call(given, layer_of(batch.spec, 1));
  arguments.first_head = given.first_head;
  // Own keys have a limit by their lists alone, so no rank is compared.
  arguments.kind = batch.limits_own_keys ? AttentionKind::kCross : batch.kind;
  arguments.scale = batch.scale;
  arguments.q_lengths = arguments.k_lengths = std::nullopt;
  const int64_t heads = batch.queries->heads(), lists = batch.queries->offsets.numel() - 1;
  const int64_t calls = given.alpha ? heads : 1;
  for (int64_t h = 0; h < calls; ++h) {
    const auto part = [&](const at::Tensor& all, const at::Tensor& offsets, at::Tensor& own) {
      own = offsets.narrow(0, h * lists / calls, lists / calls + 1);
      const int64_t first = own[0].item<int64_t>(), last = own[-1].item<int64_t>();
      own = own - first;
      return calls == 1 ? all : all.narrow(0, first, last - first);
    };
    at::Tensor q_offsets, k_offsets;
    const at::Tensor q = part(rows.q, batch.queries->offsets, q_offsets);
    const at::Tensor k = part(rows.k, batch.keys->offsets, k_offsets);
    const at::Tensor v = part(rows.v, batch.keys->offsets, k_offsets);
    arguments.q_offsets = q_offsets, arguments.k_offsets = k_offsets;
    if (batch.seen.defined()) {
      const int64_t first = batch.queries->offsets[h * lists / calls].item<int64_t>();
      arguments.pairs = {.lists = batch.seen.narrow(0, first, q.size(0)).to(q.device()), .block = 1};
    }
    if (given.alpha) {
      arguments.alpha = given.alpha->narrow(0, h, 1);
      arguments.first_head = given.first_head + h;
    }
    visit(CoreTensors{q, k, v}, arguments);
  }
}

}  // namespace fovea::ops
