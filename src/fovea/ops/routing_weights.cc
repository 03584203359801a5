#include "fovea/ops/routing_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace fovea::ops {
namespace {

using kernels::Sequence;

constexpr int64_t kMostListWeights = int64_t{1} << 22;  // of lists that are computed together, padding included

// Calls visit(list, weights [n_q, n_k]) for the lists of one call, numbered from `first` on, none of them empty.
template <class Visit>
void for_each_list(const CoreTensors& part, const GroupCall& call, int64_t first, const Visit& visit) {
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
    GroupCall own = call;
    own.q_offsets = call.q_offsets->narrow(0, begin, end - begin + 1) - q[begin];
    own.k_offsets = call.k_offsets->narrow(0, begin, end - begin + 1) - k[begin];
    if (call.pairs.lists.defined()) own.pairs.lists = call.pairs.lists.narrow(0, q[begin], q[end] - q[begin]);
    const at::Tensor own_k = part.k.narrow(0, k[begin], k[end] - k[begin]);
    const at::Tensor all = core_weights({part.q.narrow(0, q[begin], q[end] - q[begin]), own_k, own_k}, own);
    const at::Tensor wide = all.to(at::kCPU, at::kDouble).contiguous();
    for (int64_t l = begin; l < end; ++l) {
      if (q[l + 1] > q[l] && k[l + 1] > k[l])
        visit(first + l, wide[l - begin][0].narrow(0, 0, q[l + 1] - q[l]).narrow(1, 0, k[l + 1] - k[l]));
    }
  }
}

}  // namespace

RoutedRows weight_lists(const RoutedBatch& batch, const CoreTensors& rows, const GroupCall& arguments,
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
  for_each_call(batch, rows, arguments, [&](const CoreTensors& part, const GroupCall& call) {
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

}  // namespace fovea::ops
