#include "fovea/kernels/indexer/index_topk.h"

#include <algorithm>
#include <vector>

#include "fovea/base/workspace.h"
#include "fovea/kernels/indexer/index_topk_isa.h"

namespace fovea::kernels {
namespace {

// Keys that somebody may read: those of padding and of a cache's empty places have no queries.
int64_t read_keys(const Sequence& sequence) { return sequence.q_length == 0 ? 0 : sequence.k_length; }

// Pieces of at most `most` of the length(sequence) tokens of each sequence.
template <class Length>
std::vector<IndexPiece> pieces_of(std::span<const Sequence> sequences, const Length& length, int64_t most) {
  std::vector<IndexPiece> pieces;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const int64_t tokens = length(sequences[s]);
    for (int64_t first = 0; first < tokens; first += most)
      pieces.push_back({static_cast<int64_t>(s), first, std::min(most, tokens - first)});
  }
  return pieces;
}

template <Isa kIsa>
void run(const IndexTopk& job, Executor& executor) {
  using Search = IndexSearch<kIsa>;
  std::vector<int64_t> begins;  // of each sequence's panels
  int64_t floats = 0;
  for (const Sequence& sequence : job.sequences) {
    begins.push_back(floats);
    floats += (read_keys(sequence) + kIndexPackKeys - 1) / kIndexPackKeys * kIndexPackKeys * job.head_dim;
  }
  const Aligned<float> panels = aligned<float>(floats);
  const auto of = [&](const IndexPiece& piece) { return panels.get() + begins[static_cast<size_t>(piece.sequence)]; };
  const std::vector<IndexPiece> keys = pieces_of(job.sequences, read_keys, kIndexPackKeys);
  executor.run(std::ssize(keys), [&](int64_t i, int) {
    const IndexPiece& piece = keys[static_cast<size_t>(i)];
    Search::pack(job, piece, of(piece));
  });
  const IndexScratch scratch = Search::scratch(job);
  const Aligned<float> space = aligned<float>(scratch.floats * executor.num_threads());
  const std::vector<IndexPiece> queries = pieces_of(
      job.sequences, [](const Sequence& sequence) { return sequence.q_length; }, scratch.queries);
  const auto count = std::ssize(queries);
  executor.run(count, [&](int64_t i, int worker) {
    const IndexPiece& piece = queries[static_cast<size_t>(count - 1 - i)];  // causal: those with most keys first
    Search::select(job, piece, of(piece), space.get() + scratch.floats * worker);
  });
}

}  // namespace

void index_topk(const IndexTopk& job, Executor& executor) {
  with_isa([&](auto tag) { run<decltype(tag)::kIsa>(job, executor); });
}

}  // namespace fovea::kernels
