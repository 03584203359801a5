#include "fovea/kernels/routing/members.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>

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

// A key that may be among the greatest of its list, and its place there.
template <class Key>
struct Candidate {
  Key key;
  int32_t place;
};

// Writes the places of the `window` greatest candidates to `out`, in the order of the list, of equal keys the earlier;
// all places if there are no more.
template <class Key>
void write_best(std::span<const Candidate<Key>> candidates, int64_t window, int32_t* out) {
  Key least = 0;
  int64_t ties = window;
  if (std::ssize(candidates) > window) {
    std::vector<Key> keys;
    keys.reserve(candidates.size());
    for (const Candidate<Key>& one : candidates) keys.push_back(one.key);
    std::nth_element(keys.begin(), keys.begin() + (window - 1), keys.end(), std::greater<Key>());
    least = keys[static_cast<size_t>(window - 1)];
    ties = window - std::count_if(keys.begin(), keys.begin() + window, [&](Key key) { return key > least; });
  }
  for (const auto& [key, place] : candidates) {
    if (key > least || (key == least && ties-- > 0)) *out++ = place;
  }
}

// Lists of many keys: a sample tells which keys are too small to be among the greatest. If it misleads, too few are
// left, and all keys are candidates.
constexpr int64_t kSample = 512;
int64_t sampled(int64_t i, int64_t count) { return i * count / kSample; }

// Returns the least key of the candidates for the `window` greatest of `count` keys: twice as many as the sample
// promises where they are few, about three deviations more where they are many.
template <class Key>
Key bound_of(std::span<Key> sample, int64_t count, int64_t window) {
  const double expected = static_cast<double>(window * std::ssize(sample)) / static_cast<double>(count);
  const auto rank = static_cast<int64_t>(expected + 3 * std::sqrt(expected)) + 2;
  if (rank >= std::ssize(sample)) return 0;
  std::nth_element(sample.begin(), sample.begin() + (rank - 1), sample.end(), std::greater<Key>());
  return sample[static_cast<size_t>(rank - 1)];
}

// Calls write_best() for all keys of a list, key(i) for 0 <= i < count.
template <class KeyOf>
void write_best_of(int64_t count, int64_t window, const KeyOf& key, int32_t* out) {
  using Key = decltype(key(int64_t{0}));
  Key bound = 0;
  if (count > 2 * kSample) {
    std::array<Key, kSample> sample;
    for (int64_t i = 0; i < kSample; ++i) sample[static_cast<size_t>(i)] = key(sampled(i, count));
    bound = bound_of<Key>(sample, count, window);
  }
  std::vector<Candidate<Key>> candidates;
  const auto gather = [&](Key least) {
    candidates.clear();
    for (int64_t i = 0; i < count; ++i) {
      if (const Key one = key(i); one >= least) candidates.push_back({one, static_cast<int32_t>(i)});
    }
  };
  gather(bound);
  if (std::ssize(candidates) < std::min(window, count)) gather(0);
  write_best<Key>(candidates, window, out);
}

// Lists of min(window, length) members each, whose rows are not written yet.
MemberLists empty_windows(const ListShape& shape, std::span<const TokenRange> sequences, int64_t window) {
  MemberLists lists;
  lists.offsets.resize(static_cast<size_t>(shape.count()) + 1);
  for (int64_t l = 0; l < shape.count(); ++l) {
    const int64_t length = sequences[static_cast<size_t>(shape.at(l).sequence)].length;
    lists.offsets[static_cast<size_t>(l) + 1] = lists.offsets[static_cast<size_t>(l)] + std::min(window, length);
  }
  lists.rows.resize(static_cast<size_t>(lists.offsets.back()));
  return lists;
}

// Writes the rows of list l, whose places in its sequence are there already.
void turn_into_rows(MemberLists& lists, int64_t l, const ListShape& shape, const TokenRange& range) {
  const int64_t head = shape.at(l).head;
  const auto at = static_cast<size_t>(l);
  for (int64_t i = lists.offsets[at]; i < lists.offsets[at + 1]; ++i) {
    int32_t& row = lists.rows[static_cast<size_t>(i)];
    row = static_cast<int32_t>((range.begin + row) * shape.heads + head);
  }
}

// Chooses from some neighbouring columns of one head's scores [T, C] at once, because each row is a line of memory.
template <class S>
class ColumnChooser {
 public:
  static constexpr int64_t kMost = 16, kFew = 8;  // columns: at most, and where threads would find too few tasks
  using Key = decltype(ordered(S()));

  // `scores` points at the first token's first column.
  ColumnChooser(const S* scores, int64_t clusters, int64_t columns, int64_t tokens)
      : scores_(scores), clusters_(clusters), columns_(columns), tokens_(tokens) {}

  // Gathers the candidates of all columns for the `window` greatest, fewer than the tokens.
  void gather(int64_t window) {
    if (tokens_ > 2 * kSample) find_bounds(window);
    if (columns_ == kMost) return gather_columns(std::integral_constant<int64_t, kMost>());
    if (columns_ == kFew) return gather_columns(std::integral_constant<int64_t, kFew>());
    gather_columns(columns_);
  }
  // Writes the places of the column's greatest.
  void write(int64_t column, int64_t window, int32_t* out) const {
    const std::vector<Candidate<Key>>& candidates = candidates_[static_cast<size_t>(column)];
    if (std::ssize(candidates) >= window) return write_best<Key>(candidates, window, out);
    write_best_of(
        tokens_, window, [&](int64_t i) { return ordered(scores_[i * clusters_ + column]); }, out);
  }

 private:
  static constexpr int64_t kRowsAhead = 24;  // rows lie far apart: without help, each is waited for

  void find_bounds(int64_t window) {
    std::vector<Key> samples(static_cast<size_t>(columns_ * kSample));
    for (int64_t i = 0; i < kSample; ++i) {
      const S* row = scores_ + sampled(i, tokens_) * clusters_;
      for (int64_t c = 0; c < columns_; ++c) samples[static_cast<size_t>(c * kSample + i)] = ordered(row[c]);
    }
    for (int64_t c = 0; c < columns_; ++c) {
      const std::span<Key> sample = std::span(samples).subspan(static_cast<size_t>(c * kSample), kSample);
      bounds_[static_cast<size_t>(c)] = bound_of<Key>(sample, tokens_, window);
    }
  }

  template <class Columns>
  void gather_columns(Columns columns) {
    static_assert(std::endian::native == std::endian::little);
    alignas(16) uint8_t hits[kMost] = {};
    Key keys[kMost] = {};
    for (int64_t t = 0; t < tokens_; ++t) {
      const S* row = scores_ + t * clusters_;
      __builtin_prefetch(row + kRowsAhead * clusters_);  // it may lie behind the end
      for (int64_t c = 0; c < columns; ++c) {
        keys[c] = ordered(row[c]);
        hits[c] = keys[c] >= bounds_[static_cast<size_t>(c)] ? 1 : 0;
      }
      uint64_t halves[2];
      std::memcpy(halves, hits, sizeof halves);
      for (int64_t half = 0; half < 2; ++half) {
        for (uint64_t rest = halves[half]; rest != 0; rest &= rest - 1) {
          const auto c = static_cast<size_t>(8 * half + std::countr_zero(rest) / 8);
          candidates_[c].push_back({keys[c], static_cast<int32_t>(t)});
        }
      }
    }
  }

  const S* scores_;
  int64_t clusters_, columns_, tokens_;
  std::array<Key, kMost> bounds_ = {};
  std::array<std::vector<Candidate<Key>>, kMost> candidates_;
};

constexpr int64_t kTokensATask = 1024;

// The nearest cluster of each token, from one head's scores [T, C].
template <class S>
void find_nearest(const S* scores, int64_t clusters, std::span<int32_t> nearest, Executor& executor) {
  const int64_t tokens = std::ssize(nearest);
  executor.run((tokens + kTokensATask - 1) / kTokensATask, [&](int64_t piece, int) {
    const int64_t end = std::min(tokens, (piece + 1) * kTokensATask);
    for (int64_t t = piece * kTokensATask; t < end; ++t)
      nearest[static_cast<size_t>(t)] = static_cast<int32_t>(
          std::max_element(scores + t * clusters, scores + (t + 1) * clusters) - (scores + t * clusters));
  });
}

// The head's part of [H, T].
template <class S>
std::span<int32_t> part_of_head(std::vector<int32_t>& all, const ClusterScores<S>& scores, int64_t head) {
  return std::span(all).subspan(static_cast<size_t>(head * scores.tokens), static_cast<size_t>(scores.tokens));
}

struct HeadWindows {
  const ListShape& shape;
  std::span<const TokenRange> sequences;
  int64_t head, window;
};

// Writes the members of the head's lists.
template <class S>
void choose_of_head(const S* scores, const HeadWindows& of, MemberLists& lists, Executor& executor) {
  using Chooser = ColumnChooser<S>;
  const int64_t clusters = of.shape.clusters, most = clusters > 2 * Chooser::kMost ? Chooser::kMost : Chooser::kFew,
                groups = (clusters + most - 1) / most;
  executor.run(of.shape.sequences * groups, [&](int64_t task, int) {
    const int64_t sequence = task / groups, first = task % groups * most, columns = std::min(most, clusters - first),
                  first_list = (of.head * of.shape.sequences + sequence) * clusters + first;
    const TokenRange& range = of.sequences[static_cast<size_t>(sequence)];
    Chooser chooser(scores + range.begin * clusters + first, clusters, columns, range.length);
    if (range.length > of.window) chooser.gather(of.window);
    for (int64_t c = 0; c < columns; ++c) {
      int32_t* places = lists.rows.data() + lists.offsets[static_cast<size_t>(first_list + c)];
      if (range.length > of.window) {
        chooser.write(c, of.window, places);
      } else {
        std::iota(places, places + range.length, 0);
      }
      turn_into_rows(lists, first_list + c, of.shape, range);
    }
  });
}

}  // namespace

template <class S>
std::vector<int32_t> nearest_clusters(const ClusterScores<S>& scores, Executor& executor) {
  std::vector<int32_t> nearest(static_cast<size_t>(scores.heads * scores.tokens));
  for (int64_t head = 0; head < scores.heads; ++head) {
    find_nearest(scores.of_head(head), scores.clusters, part_of_head(nearest, scores, head), executor);
  }
  return nearest;
}

template <class S>
MemberLists best_members(const ClusterScores<S>& scores, std::span<const TokenRange> sequences, int64_t window,
                         Executor& executor, std::vector<int32_t>* nearest) {
  const ListShape shape{scores.heads, std::ssize(sequences), scores.clusters};
  MemberLists lists = empty_windows(shape, sequences, window);
  if (nearest != nullptr) nearest->resize(static_cast<size_t>(scores.heads * scores.tokens));
  for (int64_t head = 0; head < scores.heads; ++head) {
    const S* of_head = scores.of_head(head);
    if (nearest != nullptr) find_nearest(of_head, scores.clusters, part_of_head(*nearest, scores, head), executor);
    choose_of_head(of_head, {shape, sequences, head, window}, lists, executor);
  }
  return lists;
}

MemberLists random_members(const RandomClusters& random, std::span<const TokenRange> sequences, int64_t window,
                           Executor& executor) {
  const ListShape shape{std::ssize(random.streams), std::ssize(sequences), random.clusters};
  MemberLists lists = empty_windows(shape, sequences, window);
  executor.run(shape.count(), [&](int64_t l, int) {
    const ListPlace place = shape.at(l);
    const TokenRange& range = sequences[static_cast<size_t>(place.sequence)];
    const uint64_t stream = random.streams[static_cast<size_t>(place.head)];
    write_best_of(
        range.length, window, [&](int64_t i) { return random_rank(stream, place.cluster, i); },
        lists.rows.data() + lists.offsets[static_cast<size_t>(l)]);
    turn_into_rows(lists, l, shape, range);
  });
  return lists;
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
  const int64_t count = std::max<int64_t>(0, (std::ssize(column.ranks) - column.first + column.step - 1) / column.step);
  std::vector<int32_t> places(static_cast<size_t>(std::min(count, window)));
  write_best_of(
      count, window, [&](int64_t i) { return column.ranks[static_cast<size_t>(column.first + i * column.step)]; },
      places.data());
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

template std::vector<int32_t> nearest_clusters(const ClusterScores<float>&, Executor&);
template std::vector<int32_t> nearest_clusters(const ClusterScores<double>&, Executor&);
template MemberLists best_members(const ClusterScores<float>&, std::span<const TokenRange>, int64_t, Executor&,
                                  std::vector<int32_t>*);
template MemberLists best_members(const ClusterScores<double>&, std::span<const TokenRange>, int64_t, Executor&,
                                  std::vector<int32_t>*);
}  // namespace fovea::kernels
