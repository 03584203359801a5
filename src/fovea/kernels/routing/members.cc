#include "fovea/kernels/routing/members.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

namespace fovea::kernels {
namespace {

uint32_t ordered(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}
uint64_t ordered(double score) {
  const auto bits = std::bit_cast<uint64_t>(score + 0.0);
  return (bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000U;
}

// Every list of a batch by its head, sequence and cluster.
struct ListPlace {
  int64_t head, sequence, cluster;
};
struct ListShape {
  int64_t heads, sequences, clusters;
  int64_t count() const { return heads * sequences * clusters; }
  ListPlace at(int64_t list) const {
    return {list / (sequences * clusters), list / clusters % sequences, list % clusters};
  }
};

// Calls take(i) for the `window` greatest of key(i), 0 <= i < range.length, ascending in i.
template <class Key, class Take>
void take_best(const TokenRange& range, int64_t window, const Key& key, const Take& take) {
  using Number = decltype(key(int64_t{0}));
  if (range.length <= window) {
    for (int64_t i = 0; i < range.length; ++i) take(i);
    return;
  }
  std::vector<Number> keys(static_cast<size_t>(range.length));
  for (int64_t i = 0; i < range.length; ++i) keys[static_cast<size_t>(i)] = key(i);
  std::vector<Number> sorted = keys;
  std::nth_element(sorted.begin(), sorted.begin() + (window - 1), sorted.end(), std::greater<Number>());
  const Number least = sorted[static_cast<size_t>(window - 1)];
  int64_t ties = window - std::ranges::count_if(keys, [&](Number k) { return k > least; });
  for (int64_t i = 0; i < range.length; ++i) {
    const Number k = keys[static_cast<size_t>(i)];
    if (k > least || (k == least && ties-- > 0)) take(i);
  }
}

// Lists of min(window, length) members each; key_of(place) gives the key of each token of a list's sequence.
template <class KeyOf>
MemberLists windows_of(const ListShape& shape, std::span<const TokenRange> sequences, int64_t window,
                       const KeyOf& key_of, Executor& executor) {
  MemberLists lists;
  lists.offsets.resize(static_cast<size_t>(shape.count()) + 1);
  for (int64_t l = 0; l < shape.count(); ++l) {
    const int64_t length = sequences[static_cast<size_t>(shape.at(l).sequence)].length;
    lists.offsets[static_cast<size_t>(l) + 1] = lists.offsets[static_cast<size_t>(l)] + std::min(window, length);
  }
  lists.rows.resize(static_cast<size_t>(lists.offsets.back()));
  executor.run(shape.count(), [&](int64_t l, int) {
    const ListPlace place = shape.at(l);
    const TokenRange& range = sequences[static_cast<size_t>(place.sequence)];
    int32_t* out = lists.rows.data() + lists.offsets[static_cast<size_t>(l)];
    take_best(range, window, key_of(place),
              [&](int64_t i) { *out++ = static_cast<int32_t>((range.begin + i) * shape.heads + place.head); });
  });
  return lists;
}

}  // namespace

template <class S>
std::vector<int32_t> nearest_clusters(const ClusterScores<S>& scores, Executor& executor) {
  std::vector<int32_t> nearest(static_cast<size_t>(scores.heads * scores.tokens));
  executor.run(scores.heads, [&](int64_t head, int) {
    int32_t* out = nearest.data() + head * scores.tokens;
    for (int64_t t = 0; t < scores.tokens; ++t) {
      const S* row = scores.of(head, t);
      out[t] = static_cast<int32_t>(std::max_element(row, row + scores.clusters) - row);
    }
  });
  return nearest;
}

template <class S>
MemberLists best_members(const ClusterScores<S>& scores, std::span<const TokenRange> sequences, int64_t window,
                         Executor& executor) {
  const ListShape shape{scores.heads, std::ssize(sequences), scores.clusters};
  const auto key_of = [&](const ListPlace& place) {
    const S* first = scores.of(place.head, sequences[static_cast<size_t>(place.sequence)].begin) + place.cluster;
    return [first, step = scores.clusters](int64_t i) { return ordered(first[i * step]); };
  };
  return windows_of(shape, sequences, window, key_of, executor);
}

MemberLists random_members(const RandomClusters& random, std::span<const TokenRange> sequences, int64_t window,
                           Executor& executor) {
  const ListShape shape{std::ssize(random.streams), std::ssize(sequences), random.clusters};
  const auto key_of = [&](const ListPlace& place) {
    const uint64_t stream = random.streams[static_cast<size_t>(place.head)];
    return [stream, cluster = place.cluster](int64_t i) { return random_rank(stream, cluster, i); };
  };
  return windows_of(shape, sequences, window, key_of, executor);
}

MemberLists nearest_members(const NearestClusters& tokens, std::span<const TokenRange> sequences, Executor& executor) {
  const ListShape shape{tokens.heads, std::ssize(sequences), tokens.clusters};
  const int64_t all = tokens.heads > 0 ? std::ssize(tokens.nearest) / tokens.heads : 0;
  MemberLists lists;
  lists.offsets.resize(static_cast<size_t>(shape.count()) + 1);
  const auto each = [&](int64_t head, const auto& visit) {  // (list, row)
    for (int64_t s = 0; s < shape.sequences; ++s) {
      const TokenRange& range = sequences[static_cast<size_t>(s)];
      for (int64_t t = range.begin; t < range.begin + range.length; ++t) {
        const int32_t cluster = tokens.nearest[static_cast<size_t>(head * all + t)];
        visit(static_cast<size_t>((head * shape.sequences + s) * shape.clusters + cluster), t * shape.heads + head);
      }
    }
  };
  executor.run(shape.heads, [&](int64_t head, int) { each(head, [&](size_t l, int64_t) { ++lists.offsets[l + 1]; }); });
  std::partial_sum(lists.offsets.begin(), lists.offsets.end(), lists.offsets.begin());
  lists.rows.resize(static_cast<size_t>(lists.offsets.back()));
  std::vector<int64_t> next(lists.offsets.begin(), lists.offsets.end() - 1);
  executor.run(shape.heads, [&](int64_t head, int) {
    each(head, [&](size_t l, int64_t row) { lists.rows[static_cast<size_t>(next[l]++)] = static_cast<int32_t>(row); });
  });
  return lists;
}

uint32_t rank_of(float score) { return ordered(score); }

std::vector<int32_t> best_places(const RankColumn& column, int64_t window) {
  const int64_t count = (std::ssize(column.ranks) - column.first + column.step - 1) / column.step;
  std::vector<int32_t> places;
  take_best(
      {0, count}, window, [&](int64_t i) { return column.ranks[static_cast<size_t>(column.first + i * column.step)]; },
      [&](int64_t i) { places.push_back(static_cast<int32_t>(i)); });
  return places;
}

RowPlaces places_of(std::span<const int32_t> rows, int64_t count) {
  RowPlaces out;
  out.starts.resize(static_cast<size_t>(count) + 1);
  for (const int32_t row : rows) ++out.starts[static_cast<size_t>(row) + 1];
  std::partial_sum(out.starts.begin(), out.starts.end(), out.starts.begin());
  out.places.resize(rows.size());
  std::vector<int32_t> next(out.starts.begin(), out.starts.end() - 1);
  for (size_t p = 0; p < rows.size(); ++p)
    out.places[static_cast<size_t>(next[static_cast<size_t>(rows[p])]++)] = static_cast<int32_t>(p);
  return out;
}

template <class T>
void add_cluster_sums(const ClusterVectors<T>& vectors, const NearestClusters& tokens,
                      std::span<const TokenRange> sequences, std::span<double> counts, std::span<double> sums,
                      Executor& executor) {
  const int64_t all = tokens.heads > 0 ? std::ssize(tokens.nearest) / tokens.heads : 0;
  executor.run(tokens.heads, [&](int64_t head, int) {
    for (const TokenRange& range : sequences) {
      for (int64_t t = range.begin; t < range.begin + range.length; ++t) {
        const int64_t place = head * tokens.clusters + tokens.nearest[static_cast<size_t>(head * all + t)];
        const T* x = vectors.x + (t * vectors.heads + head) * vectors.width;
        double* sum = sums.data() + place * vectors.width;
        counts[static_cast<size_t>(place)] += 1;
        for (int64_t i = 0; i < vectors.width; ++i) sum[i] += static_cast<double>(x[i]);
      }
    }
  });
}

template std::vector<int32_t> nearest_clusters(const ClusterScores<float>&, Executor&);
template std::vector<int32_t> nearest_clusters(const ClusterScores<double>&, Executor&);
template MemberLists best_members(const ClusterScores<float>&, std::span<const TokenRange>, int64_t, Executor&);
template MemberLists best_members(const ClusterScores<double>&, std::span<const TokenRange>, int64_t, Executor&);
template void add_cluster_sums(const ClusterVectors<float>&, const NearestClusters&, std::span<const TokenRange>,
                               std::span<double>, std::span<double>, Executor&);
template void add_cluster_sums(const ClusterVectors<double>&, const NearestClusters&, std::span<const TokenRange>,
                               std::span<double>, std::span<double>, Executor&);

}  // namespace fovea::kernels
