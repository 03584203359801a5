#include "fovea/ops/routing.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/layer/product.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor_for.h"
#include "fovea/ops/no_autocast.h"
#include "fovea/ops/recycled.h"
#include "fovea/ops/routing_batch.h"

namespace fovea::ops {
namespace {

using kernels::Sequence;

constexpr int64_t kMostListWeights = int64_t{1} << 22;  // of lists that are computed together, padding included

// Calls visit(list, weights [n_q, n_k]) for the lists of one call, numbered from `first` on, none of them empty.
template <class Visit>
void for_each_list(const CoreTensors& part, const LayerCall& call, int64_t first, const Visit& visit) {
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
    LayerCall own = call;
    own.q_offsets = call.q_offsets->narrow(0, begin, end - begin + 1) - q[begin];
    own.k_offsets = call.k_offsets->narrow(0, begin, end - begin + 1) - k[begin];
    if (call.pairs.lists.defined()) own.pairs.lists = call.pairs.lists.narrow(0, q[begin], q[end] - q[begin]);
    const at::Tensor own_k = part.k.narrow(0, k[begin], k[end] - k[begin]);
    const at::Tensor all = layer_weights({part.q.narrow(0, q[begin], q[end] - q[begin]), own_k, own_k}, own);
    const at::Tensor wide = all.to(at::kCPU, at::kDouble).contiguous();
    for (int64_t l = begin; l < end; ++l) {
      if (q[l + 1] > q[l] && k[l + 1] > k[l])
        visit(first + l, wide[l - begin][0].narrow(0, 0, q[l + 1] - q[l]).narrow(1, 0, k[l + 1] - k[l]));
    }
  }
}

// The weights as lists; `rows` are member_rows() of the batch.
RoutedRows weight_lists(const RoutedBatch& batch, const CoreTensors& rows, const LayerCall& arguments,
                        const RoutedGroup& group) {
  const at::NoGradGuard no_grad;
  const int64_t heads = batch.queries->heads(), tokens = batch.queries->tokens(),
                clusters = group.spec.route()->clusters, count = std::ssize(batch.sequences);
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
  // The share of each member in its token's output.
  const at::Tensor shares =
      gather_rows(at::ones({tokens, heads, 1}, at::kDouble), batch.queries->members, row_scale_of(*group.spec.route()))
          .contiguous();
  struct Entry {
    int64_t row;
    int32_t key;
    double weight;
  };
  std::vector<Entry> entries;
  int64_t first = 0;
  for_each_call(batch, rows, arguments, [&](const CoreTensors& part, const LayerCall& call) {
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
at::Tensor dense_weights(const RoutedRows& rows, const std::vector<Sequence>& sequences, int64_t begin) {
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

using kernels::TokenRange;

// Calls visit(member) for those whose own key is the only one that they may see.
template <class Visit>
void for_each_lonely_member(const RoutedBatch& batch, const Routed& route, const Visit& visit) {
  const std::vector<int64_t>&offsets = batch.queries->lists.offsets, &keys = batch.keys->lists.offsets;
  const bool up_to_itself = batch.kind == AttentionKind::kCausal || route.is_causal();
  for (size_t l = 0; l + 1 < offsets.size(); ++l) {
    const int64_t first = offsets[l], last = offsets[l + 1];
    const bool has_earlier = keys[l + 1] - keys[l] > last - first;  // of memory
    if (route.is_causal() && route.window == 1) {
      for (int64_t member = first; member < last; ++member) visit(member);
    } else if (last > first && !has_earlier && (up_to_itself || last - first == 1)) {
      visit(first);
    }
  }
}

// `out` [T, H, D], sums over members: a lonely member, whose output is zero so far, takes its own value, which counts
// as the output would have. Other rows are not read, so that no value of theirs can spoil anything.
at::Tensor with_own_values(const at::Tensor& out, const RoutedBatch& batch, const Routed& route, const at::Tensor& v) {
  const MemberRows& members = *batch.queries->members;
  const auto* row_of = members.rows.const_data_ptr<int32_t>();
  std::map<int64_t, double> shares;  // of a row's own value
  for_each_lonely_member(batch, route, [&](int64_t member) {
    shares[row_of[member]] += row_factor(members, row_of[member], row_scale_of(route));
  });
  if (shares.empty()) return out;
  std::vector<int64_t> tokens, heads;
  std::vector<double> factors;
  for (const auto& [row, share] : shares) {
    tokens.push_back(row / members.heads), heads.push_back(row % members.heads), factors.push_back(share);
  }
  const auto indices = [&](const std::vector<int64_t>& values) {
    return at::tensor(values, at::kLong).to(out.device());
  };
  const c10::List<std::optional<at::Tensor>> rows({indices(tokens), indices(heads)});
  const auto type = out.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor factor = at::tensor(factors, at::kDouble).to(out.device(), type).unsqueeze(1);
  const at::Tensor own = at::index(own_values(batch, v), rows).to(type) * factor;
  return at::index_put(out, rows, own.to(out.scalar_type()), /*accumulate=*/true);
}

RoutedSide side_of(const MeasuredSide& measured, const at::Tensor& centroids) {
  const auto in_place = [&](const at::Tensor& numbers) {
    return numbers.to(centroids.device(), measured.distance.scalar_type());
  };
  return {in_place(measured.clusters.counts), in_place(measured.clusters.sums), measured.distance};
}

void report(const RoutedBatch& batch, const MemberInputs& inputs, const RoutedGroup& group) {
  RoutedReport out;
  out.first_head = group.first_head;
  if (group.spec.route()->has_centroids()) {
    out.sides.push_back(side_of(inputs.queries, group.centroids));
    if (!batch.shared) out.sides.push_back(side_of(inputs.own_keys, group.centroids));
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

// The products of one head's vectors with its centroids, [T, c]: x [T, H, D] and means [H, c, D] in float32.
void multiply_head(const at::Tensor& x, const at::Tensor& means, int64_t head, float* out) {
  const int64_t heads = x.size(1), width = x.size(2), clusters = means.size(1);
  kernels::RowProduct<float> job{.a = x.const_data_ptr<float>() + head * width,
                                 .b = means.const_data_ptr<float>() + head * clusters * width,
                                 .out = out};
  job.rows = x.size(0), job.depth = width, job.columns = clusters;
  job.a_stride = heads * width, job.out_stride = clusters;
  job.b_depth_stride = 1, job.b_column_stride = width;
  kernels::multiply(job, torch_executor());
}

// work(cluster scores): in float32 on the CPU each head's are computed when they are read.
template <class Work>
kernels::MemberLists with_scores(const at::Tensor& vectors, const at::Tensor& centroids, const Work& work) {
  const int64_t tokens = vectors.size(0), heads = vectors.size(1), clusters = centroids.size(1);
  const auto of_all = [&]<class S>(const at::Tensor& all, S) {
    const auto of_head = [&](int64_t head) { return all.const_data_ptr<S>() + head * tokens * clusters; };
    return work(kernels::ClusterScores<S>{heads, tokens, clusters, of_head});
  };
  const at::Tensor x = vectors.detach();
  if (x.scalar_type() == at::kDouble) return of_all(cluster_scores(x, centroids), double());
  if (!x.is_cpu()) return of_all(cluster_scores(x, centroids), float());
  const at::Tensor wide = x.to(at::kFloat).contiguous(), means = centroids.detach().to(wide.options()).contiguous();
  const at::Tensor room = recycled({tokens, clusters}, wide.options());
  return work(kernels::ClusterScores<float>{heads, tokens, clusters, [&](int64_t head) {
                                              multiply_head(wide, means, head, room.mutable_data_ptr<float>());
                                              return room.const_data_ptr<float>();
                                            }});
}

}  // namespace

at::Tensor cluster_scores(const at::Tensor& vectors, const at::Tensor& centroids) {
  const NoAutocast guard;
  const bool is_double = vectors.scalar_type() == at::kDouble;
  const at::Tensor x = vectors.detach().to(is_double ? at::kDouble : at::kFloat).contiguous();
  const at::Tensor means = centroids.detach().to(x.options()).contiguous();
  if (is_double || !x.is_cpu()) return at::matmul(x.transpose(0, 1), means.transpose(1, 2)).cpu().contiguous();
  const int64_t tokens = x.size(0), heads = x.size(1), clusters = means.size(1);
  at::Tensor scores = recycled({heads, tokens, clusters}, x.options());
  for (int64_t h = 0; h < heads; ++h)
    multiply_head(x, means, h, scores.mutable_data_ptr<float>() + h * tokens * clusters);
  return scores;
}

kernels::MemberLists members_of(const at::Tensor& vectors, std::span<const TokenRange> ranges, const RoutedGroup& group,
                                const std::vector<uint64_t>& streams, std::vector<int32_t>* nearest) {
  const Routed& route = *group.spec.route();
  Executor& executor = executor_for(vectors.numel());
  if (!route.has_centroids()) return kernels::random_members({streams, route.clusters}, ranges, route.window, executor);
  const auto choose = [&]<class S>(const kernels::ClusterScores<S>& scores) {
    if (!route.is_causal()) return kernels::best_members(scores, ranges, route.window, executor, nearest);
    std::vector<int32_t> found = kernels::nearest_clusters(scores, executor);
    kernels::MemberLists lists = kernels::nearest_members({found, scores.heads, route.clusters}, ranges, executor);
    if (nearest != nullptr) *nearest = std::move(found);
    return lists;
  };
  return with_scores(vectors, group.centroids, choose);
}

RowScale row_scale_of(const Routed& route) { return route.is_causal() ? RowScale::kNone : RowScale::kAverage; }

AttentionSpec spec_within_cluster(const AttentionSpec& spec, AttentionKind kind, const RoutingInputs& inputs) {
  AttentionSpec within = spec;
  within.norm = NoNorm{};
  const Routed& route = *spec.route();
  const bool limits_ranks = route.is_causal() && !limits_own_keys(route, kind, inputs.keys);
  within.source = limits_ranks ? leaf(Local{route.window}) : Pairs{};
  if (inputs.self != SelfKey::kKeep && shares_keys(route, kind, inputs.keys))
    within.source = Pairs{Pairs::Op::kIntersection, Full{}, {within.pairs(), leaf(Others{})}};
  return canonical(within);
}

std::vector<uint64_t> member_streams(const LayerCall& arguments, int64_t heads, bool own_keys) {
  std::vector<uint64_t> streams;
  for (int64_t h = 0; h < heads; ++h) {
    const uint64_t stream =
        kernels::pattern_stream(static_cast<uint64_t>(arguments.seed), arguments.layer, arguments.first_head + h);
    streams.push_back(own_keys ? kernels::own_key_stream(stream) : stream);
  }
  return streams;
}

double scale_within_cluster(const RoutingInputs& inputs, int64_t head_dim) {
  return inputs.scaled ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1;
}

at::Tensor routed_attention(const CoreTensors& x, const LayerCall& arguments, const RoutedGroup& group) {
  const RoutedBatch batch = routed_batch(x, arguments, group);
  const at::Tensor v = token_rows(x.v);
  const bool measures = group.inputs.reports != nullptr && group.spec.route()->has_centroids();
  const MemberInputs inputs = member_inputs(batch, v, measures ? group.centroids : at::Tensor());
  const CoreTensors& rows = inputs.rows;
  std::vector<at::Tensor> parts;
  for_each_call(batch, rows, arguments,
                [&](const CoreTensors& part, const LayerCall& call) { parts.push_back(attend(part, call).out); });
  const at::Tensor mixed = parts.size() == 1 ? parts[0] : at::cat(parts);
  at::Tensor out = sum_rows(mixed, batch.queries->members, row_scale_of(*group.spec.route()));
  if (batch.shared && group.inputs.self == SelfKey::kLast) out = with_own_values(out, batch, *group.spec.route(), v);
  if (group.inputs.reports != nullptr) report(batch, inputs, group);
  if (group.inputs.rows != nullptr) group.inputs.rows->push_back(weight_lists(batch, rows, arguments, group));
  return from_token_rows(out, x.q);
}

at::Tensor routed_weights(const CoreTensors& x, const LayerCall& arguments, const RoutedGroup& group) {
  if (group.inputs.known != nullptr) {
    for (const RoutedRows& rows : *group.inputs.known) {
      if (rows.first_head != arguments.first_head) continue;
      return dense_weights(rows, sequences_of({x.q, x.k}, arguments), group.inputs.known_begin).to(x.q.options());
    }
  }
  const RoutedBatch batch = routed_batch(x, arguments, group);
  const RoutedRows rows = weight_lists(batch, member_inputs(batch, token_rows(x.v), {}).rows, arguments, group);
  return dense_weights(rows, batch.sequences, 0).to(x.q.options());
}

}  // namespace fovea::ops