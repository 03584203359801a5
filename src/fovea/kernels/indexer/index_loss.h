#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "fovea/base/executor.h"
#include "fovea/base/workspace.h"

// The training of an indexer (index_topk.h): its target is the attention of a layer over the keys that it chose, and
// its loss the distance of its scores from that target.
namespace fovea::kernels {

// The keys that an indexer chose: element (sequence, query, place) of [batch, queries, count] is a key of the query's
// sequence, or -1 for none.
struct ChosenKeys {
  const int32_t* indices = nullptr;
  int64_t batch = 0, queries = 0, keys = 0, count = 0;  // keys: of each sequence
};

// The keys of one query without the places that hold none, ascending, and the places where they stand.
class ChosenList {
 public:
  explicit ChosenList(int64_t count) : keys_(aligned<int32_t>(count)), places_(aligned<int32_t>(count)) {}

  void read(const int32_t* indices, int64_t count) {
    size_ = 0;
    bool ascend = true;
    for (int64_t i = 0; i < count; ++i) {
      if (indices[i] < 0) continue;
      ascend = ascend && (size_ == 0 || keys_[static_cast<size_t>(size_ - 1)] <= indices[i]);
      keys_[static_cast<size_t>(size_)] = indices[i];
      places_[static_cast<size_t>(size_++)] = static_cast<int32_t>(i);
    }
    if (ascend) return;
    std::ranges::sort(places_.get(), places_.get() + size_, {}, [&](int32_t place) { return indices[place]; });
    for (int64_t i = 0; i < size_; ++i) keys_[static_cast<size_t>(i)] = indices[places_[static_cast<size_t>(i)]];
  }

  int64_t size() const { return size_; }
  const int32_t* keys() const { return keys_.get(); }
  const int32_t* places() const { return places_.get(); }

 private:
  Aligned<int32_t> keys_, places_;
  int64_t size_ = 0;
};

// An attention whose weights an indexer is to learn. Rows are float32, `width` long, a multiple of 16, with zeros
// behind the head's own numbers.
struct IndexTarget {
  const float* q = nullptr;  // [batch, queries, heads, width]
  const float* k = nullptr;  // [batch, key_heads, keys, width]; head h reads h / (heads / key_heads)
  ChosenKeys chosen = {};
  float* weights = nullptr;  // [batch, queries, count]
  int64_t heads = 0, key_heads = 0, width = 0;
  float scale = 1;
};

// Writes the softmax of scale q . k over the chosen keys, averaged over the heads; zero where no key was chosen.
// Results do not depend on threads.
void index_target(const IndexTarget& job, Executor& executor);

// The distance of an indexer's scores (index_topk.h) of the chosen keys from a target. Rows are float32, `width` long,
// a multiple of 16, with zeros behind the head's own numbers.
struct IndexLoss {
  const float* q = nullptr;        // [batch, queries, heads, width]
  const float* k = nullptr;        // [batch, keys, width]
  const float* weights = nullptr;  // [batch, queries, heads]
  const float* target = nullptr;   // [batch, queries, count], 0 or more; each row is divided by its sum
  ChosenKeys chosen = {};
  int64_t heads = 0, width = 0;
  // Gradients of the sum of the losses, shaped like q, k and weights; null if no gradients are asked for.
  float *grad_q = nullptr, *grad_k = nullptr, *grad_weights = nullptr;
};

struct IndexLossSum {
  double loss = 0;
  int64_t queries = 0;  // that have a key with a target above zero; others have no loss
};

// The sum over queries of the KL divergence from the target to the softmax of the scores of the chosen keys. Memory:
// a number per query, head and chosen key for a block of queries. Results do not depend on threads.
IndexLossSum index_loss(const IndexLoss& job, Executor& executor);

}  // namespace fovea::kernels
