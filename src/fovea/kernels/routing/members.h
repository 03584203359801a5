#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fovea/base/executor.h"
#include "fovea/base/rng.h"

// The members of each cluster of routed attention, and the way back from members to tokens. A batch has T tokens and H
// heads; a row is token * H + head. Nothing here depends on the number of threads.
namespace fovea::kernels {

// The tokens [begin, begin + length) of a batch.
struct TokenRange {
  int64_t begin = 0, length = 0;
  bool operator==(const TokenRange&) const = default;
};

// The nearness of each token to each centroid, a head at a time: of all heads they may take more room than q, k and v.
template <class S>
struct ClusterScores {
  int64_t heads = 0, tokens = 0, clusters = 0;
  // Returns the head's scores, [T, C], which are read before the next call.
  std::function<const S*(int64_t head)> of_head;
};

// The members of every cluster in every sequence and head. List l = (head * sequences + sequence) * clusters + cluster
// is rows[offsets[l]] ... rows[offsets[l + 1] - 1], its tokens ascending.
struct MemberLists {
  std::vector<int32_t> rows;
  std::vector<int64_t> offsets;
};

// The cluster of each token's greatest score, the first of equal ones: [H, T].
template <class S>
std::vector<int32_t> nearest_clusters(const ClusterScores<S>& scores, Executor& executor);

// Each cluster takes the `window` tokens of each sequence with the greatest scores, or all of a shorter sequence; of
// equal scores the earlier tokens. `nearest`, unless null, gets nearest_clusters().
template <class S>
MemberLists best_members(const ClusterScores<S>& scores, std::span<const TokenRange> sequences, int64_t window,
                         Executor& executor, std::vector<int32_t>* nearest = nullptr);

// Each cluster takes the tokens of each sequence that are nearest to it.
struct NearestClusters {
  std::span<const int32_t> nearest;  // as nearest_clusters() gives them
  int64_t heads = 0, clusters = 0;
};
MemberLists nearest_members(const NearestClusters& tokens, std::span<const TokenRange> sequences, Executor& executor);

// Each cluster takes `window` tokens of each sequence at random: those with the greatest random_rank().
struct RandomClusters {
  std::span<const uint64_t> streams;  // of each head
  int64_t clusters = 0;
};
// The stream of a head's own keys, apart from `stream`, that of its queries.
constexpr uint64_t own_key_stream(uint64_t stream) { return hash_combine(stream, 0x6b657973); }
MemberLists random_members(const RandomClusters& random, std::span<const TokenRange> sequences, int64_t window,
                           Executor& executor);
// The random rank of the token at `position` of its sequence.
constexpr uint32_t random_rank(uint64_t stream, int64_t cluster, int64_t position) {
  return static_cast<uint32_t>(
      hash_combine(hash_combine(stream, static_cast<uint64_t>(cluster)), static_cast<uint64_t>(position)) >> 32);
}

// A score as a whole number, in the order of the scores: a total order, NaN included, in which the two zeros are equal.
uint32_t rank_of(float score);
// The places of the `window` greatest of ranks[first], ranks[first + step], ..., ascending; all if there are no more.
// Among equal ranks, the earlier places are taken.
struct RankColumn {
  std::span<const uint32_t> ranks;
  int64_t first = 0, step = 1;
};
std::vector<int32_t> best_places(const RankColumn& column, int64_t window);

// For each of `count` rows the places where it stands in `rows`, ascending: row r's are places[starts[r]] ...
// places[starts[r + 1] - 1].
struct RowPlaces {
  std::vector<int32_t> starts, places;
};
RowPlaces places_of(std::span<const int32_t> rows, int64_t count);

}  // namespace fovea::kernels
