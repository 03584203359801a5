#include "fovea/kernels/indexer/index_topk_isa.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/pack-inl.h"
#include "fovea/kernels/attention/cpu/select-inl.h"

namespace fovea::kernels {
namespace {

// The product has enough rows, one for each query and head, to be worth the way of a panel of keys from memory.
constexpr int64_t kIndexRows = 128;
constexpr int64_t kIndexQueries = 64;  // at most, of a block

HeadRows index_rows(const void* data, int64_t first, int64_t width, DType dtype) {
  const bool bf16 = dtype == DType::kBFloat16;
  return {static_cast<const char*>(data) + first * width * (bf16 ? 2 : 4), width,
          bf16 ? Lane::kBFloat16 : Lane::kFloat};
}

IndexScratch index_scratch(const IndexTopk& job) {
  IndexScratch out;
  out.queries = std::clamp<int64_t>(kIndexRows / job.heads, 1, kIndexQueries);
  out.width = round_up(job.head_dim, kLanes);
  // Twice k_best: each time that the list is full, about half of it goes. A panel more fits in, and a vector behind it.
  out.capacity = round_up(2 * job.k_best + 4 * kPanel, kLanes) + kLanes;
  out.floats = round_up(out.queries * (job.heads * (out.width + kPanel) + 2 * out.capacity), 16);
  return out;
}

// The best keys of one query so far, ascending, with their scores.
struct BestKeys {
  float* scores = nullptr;
  int32_t* keys = nullptr;
  int64_t count = 0, limit = 0;  // limit: the keys that the query sees
  float least = -kInfinity;      // k_best earlier keys reach it, so a later one must exceed it

  void append(F score, int64_t key) {
    uint32_t better = bits(less(set(least), score));
    if (limit - key < kLanes) better &= (1U << (limit - key)) - 1;
    if (better == 0) return;
    compress_store(scores + count, better, score);
    count += compress_store(keys + count, better, iota() + static_cast<int32_t>(key));
  }

  // Keeps the k best in order; of those equal to the last one the first ones.
  void shrink(int64_t k) {
    if (count <= k) return;
    store(scores + count, set(-kInfinity));
    least = kth_greatest(scores, round_up(count, kLanes), k);
    const F bound = set(least);
    int64_t equal = k;  // how many of those at the bound stay
    for (int64_t i = 0; i < count; i += kLanes) equal -= __builtin_popcount(bits(less(bound, load(scores + i))));
    keep([&](F score) {
      const uint32_t greater = bits(less(bound, score));
      uint32_t at_bound = bits(less_equal(bound, score)) & ~greater;
      while (__builtin_popcount(at_bound) > equal) at_bound ^= 1U << (31 - __builtin_clz(at_bound));
      equal -= __builtin_popcount(at_bound);
      return greater | at_bound;
    });
  }

  // Makes room: keeps the k best and up to a quarter more, whose least score is found in a few steps.
  void thin(int64_t k) {
    store(scores + count, set(-kInfinity));
    F lowest = set(kInfinity), highest = set(-kInfinity);
    for (int64_t i = 0; i < count; i += kLanes) {
      const F score = load(scores + i);
      lowest = min(select(less_equal(set(kLowest), score), score, set(kInfinity)), lowest);
      highest = max(score, highest);
    }
    float low = -greatest(set(0) - lowest), high = greatest(highest);
    for (int step = 0; step < kThinSteps; ++step) {
      const float middle = 0.5F * low + 0.5F * high;
      const int64_t reach = count_from(scores, round_up(count, kLanes), middle);
      if (reach >= k && reach <= k + k / 4) {
        least = middle;
        keep([bound = set(middle)](F score) { return bits(less_equal(bound, score)); });
        return;
      }
      (reach > k ? low : high) = middle;
    }
    shrink(k);
  }

 private:
  static constexpr int kThinSteps = 8;

  // Keeps those of which `kept` gives the bits, in order.
  template <class Kept>
  void keep(const Kept& kept) {
    int64_t stay = 0;
    for (int64_t i = 0; i < count; i += kLanes) {
      const F score = load(scores + i);
      const I key = load_int(keys + i);
      const uint32_t mask = kept(score);
      compress_store(scores + stay, mask, score);
      stay += compress_store(keys + stay, mask, key);
    }
    count = stay;
  }
};

class IndexBlock {
 public:
  IndexBlock(const IndexTopk& job, const IndexPiece& piece, const float* panels, float* space)
      : job_(job), panels_(panels), sizes_(index_scratch(job)), queries_(space) {
    const Sequence& sequence = job.sequences[static_cast<size_t>(piece.sequence)];
    first_ = sequence.q_begin + piece.first, count_ = piece.count;
    products_ = queries_ + sizes_.queries * job.heads * sizes_.width;
    float* scores = products_ + sizes_.queries * job.heads * kPanel;
    auto* keys = reinterpret_cast<int32_t*>(scores + sizes_.queries * sizes_.capacity);
    for (int64_t i = 0; i < count_; ++i) {
      BestKeys& row = rows_[i];
      row.scores = scores + i * sizes_.capacity, row.keys = keys + i * sizes_.capacity;
      row.limit = sequence.k_length;
      if (job.causal) {
        row.limit = std::clamp<int64_t>(piece.first + i + 1 + sequence.k_length - sequence.q_length, 0, row.limit);
      }
    }
  }

  void run() {
    while (begin_ < count_ && rows_[begin_].limit <= job_.k_best) take_all(begin_++);
    if (begin_ == count_) return;
    pack_rows(index_rows(job_.q, first_ * job_.heads, job_.head_dim, job_.dtype), {}, count_ * job_.heads,
              job_.head_dim, queries_);
    const int64_t keys = rows_[count_ - 1].limit;  // limits ascend
    for (int64_t key = 0; key < keys; key += kPanel) add_panel(key, std::min<int64_t>(kPanel, keys - key));
    for (int64_t i = begin_; i < count_; ++i) {
      rows_[i].shrink(job_.k_best);
      std::memcpy(out(i), rows_[i].keys, static_cast<size_t>(job_.k_best) * sizeof(int32_t));
    }
  }

 private:
  int32_t* out(int64_t query) const { return job_.indices + (first_ + query) * job_.k_best; }

  // A query that sees no more keys than it may choose needs no scores.
  void take_all(int64_t query) const {
    int32_t* to = out(query);
    const int64_t keys = rows_[query].limit;
    for (int64_t j = 0; j < job_.k_best; ++j) to[j] = j < keys ? static_cast<int32_t>(j) : -1;
  }

  void add_panel(int64_t key, int64_t keys) {
    while (rows_[begin_done_].limit <= key) ++begin_done_;  // those before see none of the panel
    const int64_t from = std::max(begin_, begin_done_);
    const int64_t vecs = (keys + kLanes - 1) / kLanes;
    static constexpr float kOne = 1;
    Product product{.a = queries_ + from * job_.heads * sizes_.width,
                    .a_row = sizes_.width,
                    .b = panels_ + key * job_.head_dim,
                    .b_step = kPanel};
    product.c = products_, product.c_row = kPanel, product.depth = job_.head_dim, product.factor = &kOne;
    multiply(product, (count_ - from) * job_.heads, vecs);
    for (int64_t i = from; i < count_; ++i) add_row(i, products_ + (i - from) * job_.heads * kPanel, key, vecs);
  }

  void add_row(int64_t query, const float* products, int64_t key, int64_t vecs) {
    const float* weights = job_.weights + (first_ + query) * job_.heads;
    BestKeys& row = rows_[query];
    for (int64_t v = 0; v < vecs && key + v * kLanes < row.limit; ++v) {
      F score = set(0);
      for (int64_t h = 0; h < job_.heads; ++h) {
        const F positive = max(set(0), load(products + h * kPanel + v * kLanes));  // NaN stays
        score = fma(set(weights[h]), positive, score);
      }
      score = select(is_nan(score), set(kInfinity), max(set(kLowest), score));
      row.append(score, key + v * kLanes);
    }
    if (row.count + kPanel + kLanes > sizes_.capacity) row.thin(job_.k_best);
  }

  const IndexTopk& job_;
  const float* panels_;
  IndexScratch sizes_;
  float* queries_;   // [queries, heads, width]
  float* products_;  // [queries, heads, kPanel]
  int64_t first_ = 0, count_ = 0;
  int64_t begin_ = 0;       // queries before it need no scores
  int64_t begin_done_ = 0;  // queries before it have seen all of their keys
  BestKeys rows_[kIndexQueries];
};

}  // namespace

template <Isa kIsa>
IndexScratch IndexSearch<kIsa>::scratch(const IndexTopk& job) {
  return index_scratch(job);
}

template <Isa kIsa>
void IndexSearch<kIsa>::pack(const IndexTopk& job, const IndexPiece& keys, float* panels) {
  const int64_t first = job.sequences[static_cast<size_t>(keys.sequence)].k_begin + keys.first;
  pack_panels(index_rows(job.k, first, job.head_dim, job.dtype), {}, keys.count, job.head_dim,
              panels + keys.first * job.head_dim);
}

template <Isa kIsa>
void IndexSearch<kIsa>::select(const IndexTopk& job, const IndexPiece& queries, const float* panels, float* scratch) {
  IndexBlock(job, queries, panels, scratch).run();
}

template struct IndexSearch<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
