#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/entmax_solve.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"
#include "fovea/kernels/attention/cpu/screen_ops.h"

// Selects the keys of a row that stay, and computes their weights.
namespace fovea::kernels {

enum class WeightShape : uint8_t { kSoftmax, kEntmax, kRelu, kPointwise };

// An AttentionSpec without its pairs, for one head.
struct ScreenSelection {
  int64_t k = 0;  // 0: no top-k
  WeightShape shape = WeightShape::kSoftmax;
  EntmaxPower power{2};
  Transform pointwise;   // of the shape kPointwise
  bool learned = false;  // entmax(learned), sink
  std::optional<float> sink = std::nullopt;
  // Whether the saved values are scores instead of weights.
  bool saves_scores() const { return shape == WeightShape::kPointwise; }
};
// alpha: the head's value, if the transform learns one.
ScreenSelection selection_of(const AttentionSpec& spec, const float* alpha);

// An estimate of the number of keys that stay in a row of thousands.
int64_t selected_per_row(const AttentionSpec& spec);

// The keys to which one query may attend: keys that compete, and keys that stay whatever their score.
struct RowKeys {
  std::vector<Span> compete, stay;
  int64_t num_compete() const;
  int64_t num_stay() const;
};
void find_keys(const AttentionSpec& spec, const Row& row, RowKeys& keys);
// Appends the spans' keys at list[count ...]; returns the new count.
int64_t list_keys(const std::vector<Span>& spans, int32_t* list, int64_t count);

// The numbers that turn a row's exact scores into weights again; saved for backward.
struct RowStats {
  float threshold = 0;  // scores of competing keys below it are dropped
  float center = 0;     // the greatest score, or the sink if that is greater
  float norm = 0;       // softmax: 1 / sum of exponentials, with the sink's; entmax: the root
  float blend = 1;      // entmax above alpha 2 (entmax_solve.h)
};
constexpr int64_t kRowStats = 4;

// A row's list: its first `count` entries are the answer; there is room for 16 more.
struct RowList {
  int32_t* keys = nullptr;
  float* values = nullptr;  // scores, then weights
  int64_t count = 0;
  // The k-th greatest exact score, if the list holds the exact scores that reach it, and only these.
  std::optional<float> threshold = std::nullopt;
};

// Terms by offset of one row.
struct ScreenTerms {
  const float *by_head = nullptr, *by_query = nullptr;
  OffsetRange by_head_range = {}, by_query_range = {};
  int64_t position = 0;  // of the query among the keys
  float most = 0;        // the greatest magnitude of their sum
  bool any() const { return by_head != nullptr || by_query != nullptr; }
  float added_to(float score, int64_t key) const {
    if (by_head != nullptr) score += by_head[by_head_range.index(key - position)];
    if (by_query != nullptr) score += by_query[by_query_range.index(key - position)];
    return score;
  }
};
// The greatest magnitude among values; infinite if one is not finite.
float greatest_magnitude(const float* values, int64_t count);
// most_by_head: the greatest magnitude in the head's table.
ScreenTerms terms_of(const AttentionProblem& problem, const OffsetTerms& terms, const Piece& piece, int64_t query,
                     float most_by_head);

// The inputs of exact scores: row x against the listed keys.
struct RowScores {
  const float* x = nullptr;     // [width]
  const float* rows = nullptr;  // [keys, width]
  int64_t width = 0;
  float scale = 1;
  ScreenTerms terms = {};
};

// `list` holds candidates among the competing keys, at least all that can be selected. Selects exactly, adds the keys
// that stay, turns scores into weights (or, for saves_scores(), leaves them) and drops keys without a weight. least_mu:
// a lower bound of entmax's mu.
RowStats select_row(const ScreenSelection& selection, const RowScores& scores, const RowKeys& keys, RowList& list,
                    float least_mu);
// Repeats select_row() from what it returned, for a list of all competing keys, and gives the same bits.
void recompute_row(const ScreenSelection& selection, const RowScores& scores, const RowKeys& keys,
                   const RowStats& stats, RowList& list);
// Turns saved values into weights. This is a copy unless saves_scores().
void saved_to_weights(const ScreenSelection& selection, const float* saved, int64_t count, float* weights);

// The weight of the row's sink; 0 without one.
double sink_weight(const ScreenSelection& selection, const RowStats& stats);

// A row's saved values, and the derivatives of its weights in its scores, up to a factor of the row. Only softmax and
// entmax have derivatives; functions of single scores have none.
struct RowWeights {
  const float* values = nullptr;
  const float* derivatives = nullptr;
  int64_t count = 0;
  double sink = 0;  // sink_weight()
};
// scratch: [count] and room for 16 more; the derivatives may lie there.
RowWeights row_weights(const ScreenSelection& selection, const float* values, int64_t count, float* scratch);

// Compute gradients of scores from gradients of weights, in two steps, so that a row can be worked on in parts: first
// the row's mean, then each element.
double gradient_mean(const RowWeights& row, const float* gradients);
void score_gradients(const ScreenSelection& selection, const RowWeights& row, double mean, float* gradients);
// Returns the row's part of the gradient of what the transform learns, alpha or the sink: from the gradients of the
// weights less `mean`, because a constant of the row contributes nothing to alpha's except rounding.
double learned_gradient(const ScreenSelection& selection, const RowWeights& row, double mean, const float* gradients);

}  // namespace fovea::kernels
