#include "fovea/ops/routing.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/step/product.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor_for.h"
#include "fovea/ops/recycled.h"
#include "fovea/ops/routing_distance.h"
#include "fovea/ops/routing_rows.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::ops {
namespace {

using kernels::Sequence;
using kernels::TokenRange;

constexpr double kNormEps = 1e-6;
constexpr uint64_t kOwnKeys = 0x6b657973;  // parts the random members of keys from those of queries

// The queries or the keys of a batch, routed.
struct RoutedTokens {
  at::Tensor vectors;  // [T, H, D], normalised, with a graph
  std::vector<TokenRange> ranges;
  std::vector<int32_t> nearest;  // [H, T]; empty without centroids
  kernels::MemberLists lists;
  MemberRowsPointer members;
  at::Tensor offsets;  // of the lists

  int64_t heads() const { return vectors.size(1); }
  int64_t tokens() const { return vectors.size(0); }
};

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

RoutedTokens routed_tokens(const at::Tensor& x, std::vector<TokenRange> ranges, const RoutedGroup& group,
                           const std::vector<uint64_t>& streams) {
  RoutedTokens side;
  side.vectors = routing_vectors(x);
  side.ranges = std::move(ranges);
  if (x.size(0) * x.size(1) > std::numeric_limits<int32_t>::max())
    throw Error(cat("attention: ", x.size(0), " tokens of ", x.size(1), " heads are too many for ", Routed::kName));
  side.lists = members_of(side.vectors, side.ranges, group, streams, &side.nearest);
  side.members = c10::make_intrusive<MemberRows>(side.lists, side.tokens(), side.heads());
  side.offsets = offsets_tensor(side.lists.offsets);
  return side;
}

// Everything that forward and the weights share.
struct RoutedBatch {
  std::shared_ptr<const RoutedTokens> queries, keys;  // the same where keys are shared
  bool shared = false;
  AttentionKind kind = AttentionKind::kSelf;
  std::vector<Sequence> sequences;
  std::string spec;  // within a cluster
  double scale = 1;
};

void check_lengths(const std::vector<Sequence>& sequences, const CoreArguments& arguments, bool shared) {
  if (arguments.k_begins) throw Error("attention: routed reads whole sequences; give k_offsets, not k_begins");
  if (!shared) return;
  for (const Sequence& s : sequences) {
    if (s.q_begin == s.k_begin && s.q_length == s.k_length) continue;
    throw Error(cat("attention: routed with keys that are the queries got ", s.q_length, " queries and ", s.k_length,
                    " keys in a sequence; expected the same tokens"));
  }
}

RoutedBatch routed_batch(const CoreTensors& x, const CoreArguments& arguments, const RoutedGroup& group) {
  RoutedBatch batch;
  batch.kind = parse_kind(arguments.kind);
  batch.shared = shares_keys(*group.spec.route, batch.kind, group.inputs.keys);
  if (!batch.shared && batch.kind == AttentionKind::kCausal)
    throw Error("attention: routed with keys of their own has no limit to earlier keys; share the keys");
  batch.sequences = sequences_of({x.q, x.k}, arguments);
  check_lengths(batch.sequences, arguments, batch.shared);
  const auto side = [&](const at::Tensor& tokens, int64_t Sequence::*begin, int64_t Sequence::*length, bool own_keys) {
    return std::make_shared<const RoutedTokens>(routed_tokens(token_rows(tokens),
                                                              ranges_of(batch.sequences, begin, length), group,
                                                              member_streams(arguments, tokens.size(1), own_keys)));
  };
  batch.queries = side(x.q, &Sequence::q_begin, &Sequence::q_length, false);
  batch.keys = batch.shared ? batch.queries : side(x.k, &Sequence::k_begin, &Sequence::k_length, true);
  batch.spec = print(spec_within_cluster(group.spec, batch.kind, group.inputs));
  batch.scale = scale_within_cluster(group.inputs, x.q.size(-1));
  return batch;
}

// Rows of q, k and v in the order of members, [N, 1, D].
CoreTensors member_rows(const RoutedBatch& batch, const at::Tensor& v) {
  CoreTensors rows;
  rows.q = gather_rows(batch.queries->vectors, batch.queries->members);
  rows.k = batch.shared ? rows.q : gather_rows(batch.keys->vectors, batch.keys->members);
  rows.v = gather_rows(v, batch.keys->members);
  return rows;
}

// Calls visit(part of the rows, arguments) for all lists, or head by head where each head has an alpha of its own.
template <class Visit>
void for_each_call(const RoutedBatch& batch, const CoreTensors& rows, const CoreArguments& given, const Visit& visit) {
  CoreArguments arguments = given;
  arguments.spec = batch.spec;
  arguments.kind = name_of(batch.kind);
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
    const at::Tensor k = batch.shared ? q : part(rows.k, batch.keys->offsets, k_offsets);
    const at::Tensor v = part(rows.v, batch.keys->offsets, k_offsets);
    arguments.q_offsets = q_offsets, arguments.k_offsets = k_offsets;
    if (given.alpha) {
      arguments.alpha = given.alpha->narrow(0, h, 1);
      arguments.first_head = given.first_head + h;
    }
    visit(CoreTensors{q, k, v}, arguments);
  }
}

// Members whose own key is the only one that they may see, [N, 1, 1].
at::Tensor lonely_members(const RoutedBatch& batch, const Routed& route) {
  const std::vector<int64_t>& offsets = batch.queries->lists.offsets;
  at::Tensor mask = at::zeros({batch.queries->members->rows.numel(), 1, 1}, at::kBool);
  auto* out = mask.mutable_data_ptr<bool>();
  const bool up_to_itself = batch.kind == AttentionKind::kCausal || route.is_causal();
  for (size_t l = 0; l + 1 < offsets.size(); ++l) {
    const int64_t first = offsets[l], last = offsets[l + 1];
    if (route.is_causal() && route.window == 1) {
      std::fill(out + first, out + last, true);
    } else if (last > first && (up_to_itself || last - first == 1)) {
      out[first] = true;
    }
  }
  return mask;
}

RoutedSide side_of(const RoutedTokens& tokens, const at::Tensor& centroids) {
  const int64_t heads = tokens.heads(), clusters = centroids.size(1), width = tokens.vectors.size(2);
  const at::Tensor x = tokens.vectors.detach().cpu();
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor wide = x.to(type).contiguous();
  const at::Tensor counts = at::zeros({heads, clusters}, at::kDouble);
  const at::Tensor sums = at::zeros({heads, clusters, width}, at::kDouble);
  const auto all = [](const at::Tensor& t) {
    return std::span<double>(t.mutable_data_ptr<double>(), static_cast<size_t>(t.numel()));
  };
  const auto add = [&]<class T>(T) {
    kernels::add_cluster_sums<T>({wide.const_data_ptr<T>(), heads, width}, {tokens.nearest, heads, clusters},
                                 tokens.ranges, all(counts), all(sums), executor_for(wide.numel()));
  };
  type == at::kDouble ? add(double()) : add(float());
  RoutedSide side;
  side.counts = counts.to(centroids.device(), type), side.sums = sums.to(centroids.device(), type);
  side.distance = distance_to_centroids(tokens.vectors, centroids, {tokens.nearest, tokens.ranges});
  return side;
}

void report(const RoutedBatch& batch, const RoutedGroup& group) {
  RoutedReport out;
  out.first_head = group.first_head;
  if (group.spec.route->has_centroids()) {
    out.sides.push_back(side_of(*batch.queries, group.centroids));
    if (!batch.shared) out.sides.push_back(side_of(*batch.keys, group.centroids));
  }
  const auto* starts = batch.queries->members->starts.const_data_ptr<int32_t>();
  const int64_t heads = batch.queries->heads();
  for (const TokenRange& range : batch.queries->ranges) {
    for (int64_t row = range.begin * heads; row < (range.begin + range.length) * heads; ++row) {
      const int32_t clusters = starts[row + 1] - starts[row];
      out.rows += 1, out.in_none += clusters == 0 ? 1 : 0, out.in_several += clusters > 1 ? 1 : 0;
    }
  }
  group.inputs.reports->push_back(std::move(out));
}

constexpr int64_t kMostListWeights = int64_t{1} << 22;  // of lists that are computed together, padding included

// Calls visit(list, weights [n_q, n_k]) for the lists of one call, numbered from `first` on, none of them empty.
template <class Visit>
void for_each_list(const CoreTensors& part, const CoreArguments& call, int64_t first, const Visit& visit) {
  const auto* q = call.q_offsets->const_data_ptr<int64_t>();
  const auto* k = call.k_offsets->const_data_ptr<int64_t>();
  const int64_t lists = call.q_offsets->numel() - 1;
  for (int64_t begin = 0, end = 0; begin < lists; begin = end) {
    int64_t queries = 0, keys = 0;
    for (; end < lists; ++end) {
      const int64_t most_q = std::max(queries, q[end + 1] - q[end]), most_k = std::max(keys, k[end + 1] - k[end]);
      if (end > begin && (end + 1 - begin) * most_q * most_k > kMostListWeights) break;
      queries = most_q, keys = most_k;
    }
    CoreArguments own = call;
    own.q_offsets = call.q_offsets->narrow(0, begin, end - begin + 1) - q[begin];
    own.k_offsets = call.k_offsets->narrow(0, begin, end - begin + 1) - k[begin];
    const at::Tensor own_k = part.k.narrow(0, k[begin], k[end] - k[begin]);
    const at::Tensor all = core_weights({part.q.narrow(0, q[begin], q[end] - q[begin]), own_k, own_k}, own);
    const at::Tensor wide = all.to(at::kCPU, at::kDouble).contiguous();
    for (int64_t l = begin; l < end; ++l) {
      if (q[l + 1] > q[l] && k[l + 1] > k[l])
        visit(first + l, wide[l - begin][0].narrow(0, 0, q[l + 1] - q[l]).narrow(1, 0, k[l + 1] - k[l]));
    }
  }
}

// The weights as lists; `rows` are those of member_rows().
RoutedRows rows_of(const RoutedBatch& batch, const CoreTensors& rows, const CoreArguments& arguments,
                   const RoutedGroup& group) {
  const at::NoGradGuard no_grad;
  const int64_t heads = batch.queries->heads(), tokens = batch.queries->tokens(), clusters = group.spec.route->clusters,
                count = std::ssize(batch.sequences);
  RoutedRows out;
  out.first_head = arguments.first_head, out.heads = heads, out.num_clusters = clusters;
  out.queries = batch.queries->lists;
  const auto* starts = batch.queries->members->starts.const_data_ptr<int32_t>();
  for (int64_t row = 0; row < tokens * heads; ++row) out.clusters.push_back(starts[row + 1] - starts[row]);
  out.lists.assign(static_cast<size_t>(heads), 0), out.members.assign(static_cast<size_t>(heads), 0);
  const std::vector<int64_t>& offsets = batch.queries->lists.offsets;
  for (int64_t l = 0; l + 1 < std::ssize(offsets); ++l) {
    const auto at = static_cast<size_t>(l), head = static_cast<size_t>(l / (count * clusters));
    out.lists[head] += offsets[at + 1] > offsets[at] ? 1 : 0, out.members[head] += offsets[at + 1] - offsets[at];
  }
  // How much each member counts for its token's output.
  const at::Tensor shares =
      gather_rows(at::ones({tokens, heads, 1}, at::kDouble), batch.queries->members, row_scale_of(*group.spec.route))
          .contiguous();
  struct Entry {
    int64_t row;
    int32_t key;
    double weight;
  };
  std::vector<Entry> entries;
  int64_t first = 0;
  for_each_call(batch, rows, arguments, [&](const CoreTensors& part, const CoreArguments& call) {
    for_each_list(part, call, first, [&](int64_t list, const at::Tensor& weights) {
      const auto l = static_cast<size_t>(list);
      const int64_t q_begin = batch.queries->lists.offsets[l], k_begin = batch.keys->lists.offsets[l];
      const Sequence& s = batch.sequences[static_cast<size_t>(list / clusters % count)];
      for (int64_t i = 0; i < weights.size(0); ++i) {
        const auto* row = weights.const_data_ptr<double>() + i * weights.stride(0);
        const double share = shares.const_data_ptr<double>()[q_begin + i];
        for (int64_t j = 0; j < weights.size(1); ++j) {
          if (row[j] == 0) continue;
          const int32_t key = batch.keys->lists.rows[static_cast<size_t>(k_begin + j)];
          entries.push_back({batch.queries->lists.rows[static_cast<size_t>(q_begin + i)],
                             static_cast<int32_t>(key / heads - s.k_begin), row[j] * share});
        }
      }
    });
    first += call.q_offsets->numel() - 1;
  });
  out.starts.assign(static_cast<size_t>(tokens * heads + 1), 0);
  for (const Entry& entry : entries) ++out.starts[static_cast<size_t>(entry.row + 1)];
  for (size_t row = 1; row < out.starts.size(); ++row) out.starts[row] += out.starts[row - 1];
  std::vector<int64_t> next(out.starts.begin(), out.starts.end() - 1);
  out.keys.resize(entries.size()), out.weights.resize(entries.size());
  for (const Entry& entry : entries) {
    const auto at = static_cast<size_t>(next[static_cast<size_t>(entry.row)]++);
    out.keys[at] = entry.key, out.weights[at] = entry.weight;
  }
  return out;
}

// [B, H, N_q, N_k] with the greatest lengths, double on the CPU. Query t of the sequences is token `begin` + t of rows.
at::Tensor dense_rows(const RoutedRows& rows, const std::vector<Sequence>& sequences, int64_t begin) {
  int64_t queries = 0, keys = 0;
  for (const Sequence& s : sequences) queries = std::max(queries, s.q_length), keys = std::max(keys, s.k_length);
  at::Tensor all = at::zeros({std::ssize(sequences), rows.heads, queries, keys}, at::kDouble);
  auto* out = all.mutable_data_ptr<double>();
  for (int64_t b = 0; b < std::ssize(sequences); ++b) {
    const Sequence& s = sequences[static_cast<size_t>(b)];
    for (int64_t i = 0; i < s.q_length; ++i) {
      for (int64_t h = 0; h < rows.heads; ++h) {
        const auto row = static_cast<size_t>((begin + s.q_begin + i) * rows.heads + h);
        double* to = out + ((b * rows.heads + h) * queries + i) * keys;
        for (int64_t e = rows.starts[row]; e < rows.starts[row + 1]; ++e)
          to[rows.keys[static_cast<size_t>(e)]] += rows.weights[static_cast<size_t>(e)];
      }
    }
  }
  return all;
}

}  // namespace

at::Tensor routing_vectors(const at::Tensor& x) { return at::layer_norm(x, {x.size(2)}, {}, {}, kNormEps); }

at::Tensor cluster_scores(const at::Tensor& vectors, const at::Tensor& centroids) {
  const bool is_double = vectors.scalar_type() == at::kDouble;
  const at::Tensor x = vectors.detach().to(is_double ? at::kDouble : at::kFloat).contiguous();
  const at::Tensor means = centroids.detach().to(x.options()).contiguous();
  if (is_double || !x.is_cpu()) return at::matmul(x.transpose(0, 1), means.transpose(1, 2)).cpu().contiguous();
  const int64_t tokens = x.size(0), heads = x.size(1), width = x.size(2), clusters = means.size(1);
  at::Tensor scores = recycled({heads, tokens, clusters}, x.options());
  for (int64_t h = 0; h < heads; ++h) {
    kernels::RowProduct<float> job{.a = x.const_data_ptr<float>() + h * width,
                                   .b = means.const_data_ptr<float>() + h * clusters * width,
                                   .out = scores.mutable_data_ptr<float>() + h * tokens * clusters};
    job.rows = tokens, job.depth = width, job.columns = clusters;
    job.a_stride = heads * width, job.out_stride = clusters;
    job.b_depth_stride = 1, job.b_column_stride = width;
    kernels::multiply(job, torch_executor());
  }
  return scores;
}

kernels::MemberLists members_of(const at::Tensor& vectors, std::span<const TokenRange> ranges, const RoutedGroup& group,
                                const std::vector<uint64_t>& streams, std::vector<int32_t>* nearest) {
  const Routed& route = *group.spec.route;
  Executor& executor = executor_for(vectors.numel());
  if (!route.has_centroids()) return kernels::random_members({streams, route.clusters}, ranges, route.window, executor);
  const int64_t tokens = vectors.size(0), heads = vectors.size(1);
  const at::Tensor scores = cluster_scores(vectors, group.centroids);
  const auto choose = [&]<class S>(S) {
    const kernels::ClusterScores<S> view{scores.const_data_ptr<S>(), heads, tokens, route.clusters};
    std::vector<int32_t> found;
    if (route.is_causal() || nearest != nullptr) found = kernels::nearest_clusters(view, executor);
    kernels::MemberLists lists = route.is_causal()
                                     ? kernels::nearest_members({found, heads, route.clusters}, ranges, executor)
                                     : kernels::best_members(view, ranges, route.window, executor);
    if (nearest != nullptr) *nearest = std::move(found);
    return lists;
  };
  return scores.scalar_type() == at::kDouble ? choose(double()) : choose(float());
}

RowScale row_scale_of(const Routed& route) { return route.is_causal() ? RowScale::kNone : RowScale::kAverage; }

AttentionSpec spec_within_cluster(const AttentionSpec& spec, AttentionKind kind, const RoutingInputs& inputs) {
  AttentionSpec within = spec;
  within.norm = NoNorm{};
  within.route.reset();
  if (spec.route->is_causal()) within.pairs = {Pairs::Op::kLeaf, Local{spec.route->window}, {}};
  if (inputs.self != SelfKey::kKeep && shares_keys(*spec.route, kind, inputs.keys))
    within.pairs = {Pairs::Op::kIntersection, Full{}, {within.pairs, {Pairs::Op::kLeaf, Others{}, {}}}};
  return canonical(within);
}

std::vector<uint64_t> member_streams(const CoreArguments& arguments, int64_t heads, bool own_keys) {
  std::vector<uint64_t> streams;
  for (int64_t h = 0; h < heads; ++h) {
    const uint64_t stream =
        kernels::pattern_stream(static_cast<uint64_t>(arguments.seed), arguments.layer, arguments.first_head + h);
    streams.push_back(own_keys ? hash_combine(stream, kOwnKeys) : stream);
  }
  return streams;
}

double scale_within_cluster(const RoutingInputs& inputs, int64_t head_dim) {
  return inputs.scaled ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1;
}

at::Tensor routed_attention(const CoreTensors& x, const CoreArguments& arguments, const RoutedGroup& group) {
  const RoutedBatch batch = routed_batch(x, arguments, group);
  const CoreTensors rows = member_rows(batch, token_rows(x.v));
  std::vector<at::Tensor> parts;
  for_each_call(batch, rows, arguments, [&](const CoreTensors& part, const CoreArguments& call) {
    parts.push_back(call_forward(part, call).out);
  });
  at::Tensor mixed = parts.size() == 1 ? parts[0] : at::cat(parts);
  if (batch.shared && group.inputs.self == SelfKey::kLast)
    mixed = at::where(lonely_members(batch, *group.spec.route).to(mixed.device()), rows.v, mixed);
  if (group.inputs.reports != nullptr) report(batch, group);
  if (group.inputs.rows != nullptr) group.inputs.rows->push_back(rows_of(batch, rows, arguments, group));
  return from_token_rows(sum_rows(mixed, batch.queries->members, row_scale_of(*group.spec.route)), x.q);
}

at::Tensor routed_weights(const CoreTensors& x, const CoreArguments& arguments, const RoutedGroup& group) {
  if (group.inputs.known != nullptr) {
    for (const RoutedRows& rows : *group.inputs.known) {
      if (rows.first_head != arguments.first_head) continue;
      return dense_rows(rows, sequences_of({x.q, x.k}, arguments), group.inputs.known_begin).to(x.q.options());
    }
  }
  const RoutedBatch batch = routed_batch(x, arguments, group);
  const RoutedRows rows = rows_of(batch, member_rows(batch, token_rows(x.v)), arguments, group);
  return dense_rows(rows, batch.sequences, 0).to(x.q.options());
}

}  // namespace fovea::ops
