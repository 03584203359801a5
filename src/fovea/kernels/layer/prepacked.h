#pragma once
#include <cstdint>

#include "fovea/base/executor.h"
#include "fovea/base/workspace.h"

// Layers of inference: a weight is laid out once and then multiplied by many small batches of rows, as the steps of a
// decoder are. T is float, or uint16_t for the bits of bfloat16. A row's result depends on that row alone; of an exact
// layer it has the bits that product.h gives it.
namespace fovea::kernels {

// kExact: weights as they are. kInt8: weights in int8, with one scale per column; each row that they multiply becomes
// int8 when it comes, with a scale of its own; sums are exact, up to kMostInt8Depth. A row or column that holds what is
// not finite gives NaN.
enum class LayerFormat : uint8_t { kExact, kInt8 };
constexpr int64_t kMostInt8Depth = 65536;

template <class T>
struct LayerWeights {
  const T* weight = nullptr;  // [columns, depth]
  const T* bias = nullptr;    // [columns] or null
  int64_t columns = 0, depth = 0;
};

// In the order in which the products of one instruction-set level walk it; to be used at that level.
class PrepackedLayer {
 public:
  template <class T>
  PrepackedLayer(const LayerWeights<T>& from, LayerFormat format, Executor& executor);
  int64_t columns() const { return columns_; }
  int64_t depth() const { return depth_; }
  const float* bias() const { return bias_.get(); }  // [padded columns], -infinity beyond the last
  LayerFormat format() const { return format_; }
  const float* scales() const { return scales_.get(); }  // kInt8: [padded columns]
  // The panel of a tile's columns, [steps][width of a tile], from `column` on, which is a multiple of that width. All
  // panels lie in order.
  const float* panel(int64_t column) const { return panels_.get() + column * steps_; }
  float* panel(int64_t column) { return panels_.get() + column * steps_; }
  int64_t steps() const { return steps_; }  // four-byte units of a column
  float* bias() { return bias_.get(); }
  float* scales() { return scales_.get(); }

 private:
  int64_t columns_, depth_, steps_ = 0;
  LayerFormat format_;
  Aligned<float> panels_, bias_, scales_;
};

// out = relu?(a weight^T + bias)
template <class T>
struct LayerRows {
  const T* a = nullptr;  // [rows, depth]
  const PrepackedLayer* layer = nullptr;
  T* out = nullptr;  // [rows, columns]
  int64_t rows = 0, a_stride = 0, out_stride = 0;
  bool relu = false;
};
void multiply(const LayerRows<float>& job, Executor& executor);
void multiply(const LayerRows<uint16_t>& job, Executor& executor);

// The words that may follow each row, by the log-softmax of hidden weight^T + bias. The logits are never held.
struct NextWords {
  const float* hidden = nullptr;  // [rows, depth]
  const PrepackedLayer* output = nullptr;
  int64_t rows = 0, hidden_stride = 0;
  int64_t n = 1, eos = 0;         // n <= columns
  int32_t* words = nullptr;       // [rows, n], by falling log-softmax, equal ones by rising word
  float* log_probs = nullptr;     // [rows, n]
  float* eos_log_prob = nullptr;  // [rows], of word `eos`
  // Words whose log-softmax is wanted too: those of row r are asked[asked_offsets[r]] ... asked[asked_offsets[r + 1] -
  // 1], each below `columns`.
  const int64_t* asked_offsets = nullptr;  // [rows + 1], or null
  const int32_t* asked = nullptr;
  float* asked_log_probs = nullptr;
};
// Returns how many rows have no log-softmax, because a logit is NaN or +infinity or all are -infinity: their words are
// 0 ... n - 1 with a log-probability of -infinity.
int64_t next_words(const NextWords& job, Executor& executor);

}  // namespace fovea::kernels
