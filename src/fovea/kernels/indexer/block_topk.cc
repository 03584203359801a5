#include "fovea/kernels/indexer/block_topk.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fovea/base/workspace.h"
#include "fovea/kernels/indexer/block_topk_isa.h"

namespace fovea::kernels {

BlockReach reach_of(const BlockTopk& job, const BlockPlace& place, int64_t query) {
  const Sequence& sequence = job.sequences[static_cast<size_t>(place.sequence)];
  const int64_t at = query + sequence.k_length - sequence.q_length;
  if (at < 0 || place.blocks == 0) return {};
  return {at / job.block, job.causal ? at / job.block : place.blocks};
}

namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

// The lists of a piece's queries, one after the other, and where each ends.
struct ChosenBlocks {
  std::vector<int32_t> blocks;
  std::vector<int64_t> ends;
};

// Appends a query's list; its others have these scores, and `least` is that of the last chosen one.
void append_list(const BlockTopk& job, const BlockReach& reach, const float* scores, float least, ChosenBlocks& to) {
  const bool only_own = job.best == 1;
  for (int64_t m = 0; m < std::max(reach.end, reach.own + 1); ++m) {
    const bool is_chosen = m == reach.own || (m < reach.end && !only_own && (least < -kLargest || scores[m] >= least));
    if (is_chosen) to.blocks.push_back(static_cast<int32_t>(m));
  }
  to.ends.push_back(std::ssize(to.blocks));
}

// The lists of all pieces in one array, each filled up to the longest.
BlockLists gathered(const BlockTopk& job, const std::vector<BlockPiece>& pieces, const std::vector<BlockPlace>& places,
                    const std::vector<ChosenBlocks>& chosen) {
  BlockLists out;
  int64_t tokens = 0;
  for (const Sequence& sequence : job.sequences) tokens = std::max(tokens, sequence.q_begin + sequence.q_length);
  for (const ChosenBlocks& lists : chosen) {
    int64_t begin = 0;
    for (const int64_t end : lists.ends) out.count = std::max(out.count, end - std::exchange(begin, end));
  }
  out.blocks.assign(static_cast<size_t>(tokens * job.heads * out.count), -1);
  for (size_t p = 0; p < pieces.size(); ++p) {
    const BlockPiece& piece = pieces[p];
    const Sequence& sequence = job.sequences[static_cast<size_t>(places[static_cast<size_t>(piece.place)].sequence)];
    int64_t begin = 0;
    for (int64_t n = 0; n < piece.count; ++n) {
      const int64_t end = chosen[p].ends[static_cast<size_t>(n)];
      const int64_t row = (sequence.q_begin + piece.first + n) * job.heads + piece.head;
      std::copy_n(chosen[p].blocks.begin() + begin, end - begin, out.blocks.begin() + row * out.count);
      begin = end;
    }
  }
  return out;
}

template <Isa kIsa>
BlockLists run(const BlockTopk& job, Executor& executor) {
  using Search = BlockSearch<kIsa>;
  std::vector<BlockPlace> places;
  int64_t floats = 0, most = 0;
  for (int64_t s = 0; s < std::ssize(job.sequences); ++s) {
    const Sequence& sequence = job.sequences[static_cast<size_t>(s)];
    const int64_t blocks = sequence.q_length == 0 ? 0 : (sequence.k_length + job.block - 1) / job.block;
    most = std::max(most, blocks);
    for (int64_t head = 0; head < job.key_heads(); ++head) {
      places.push_back({s, head, blocks, floats});
      floats += Search::panel_floats(job, blocks);
    }
  }
  const Aligned<float> panels = aligned<float>(floats);
  if (job.best > 1) {
    const int64_t rows = Search::panel_floats(job, most);
    const Aligned<float> space = aligned<float>(rows * executor.num_threads());
    executor.run(std::ssize(places), [&](int64_t i, int worker) {
      const BlockPlace& place = places[static_cast<size_t>(i)];
      Search::summarise(job, place, panels.get() + place.at, space.get() + rows * worker);
    });
  }
  const BlockRoom room = Search::room(job, most);
  std::vector<BlockPiece> pieces;
  for (int64_t i = 0; i < std::ssize(places); ++i) {
    const BlockPlace& place = places[static_cast<size_t>(i)];
    const int64_t queries = job.sequences[static_cast<size_t>(place.sequence)].q_length;
    const int64_t end = std::min(job.keys.first_head(place.key_head + 1), job.heads);
    for (int64_t head = job.keys.first_head(place.key_head); head < end; ++head) {
      for (int64_t first = 0; first < queries; first += room.queries)
        pieces.push_back({i, head, first, std::min(room.queries, queries - first)});
    }
  }
  const Aligned<float> space = aligned<float>(room.floats * executor.num_threads());
  std::vector<ChosenBlocks> chosen(pieces.size());
  executor.run(std::ssize(pieces), [&](int64_t i, int worker) {
    const BlockPiece& piece = pieces[static_cast<size_t>(i)];
    const BlockPlace& place = places[static_cast<size_t>(piece.place)];
    float* scores = space.get() + room.floats * worker;
    const int64_t row = Search::score_row(place.blocks);
    if (job.best > 1) Search::score(job, piece, place, panels.get() + place.at, scores);
    for (int64_t n = 0; n < piece.count; ++n) {
      const float least = job.best > 1 ? scores[piece.count * row + n] : 0;
      append_list(job, reach_of(job, place, piece.first + n), scores + n * row, least, chosen[static_cast<size_t>(i)]);
    }
  });
  return gathered(job, pieces, places, chosen);
}

}  // namespace

void summarise_keys(const BlockKeys& keys, float* out) {
  with_isa([&](auto tag) { BlockSearch<decltype(tag)::kIsa>::summarise_keys(keys, out); });
}

BlockLists block_topk(const BlockTopk& job, Executor& executor) {
  BlockLists lists;
  with_isa([&](auto tag) { lists = run<decltype(tag)::kIsa>(job, executor); });
  return lists;
}

}  // namespace fovea::kernels
