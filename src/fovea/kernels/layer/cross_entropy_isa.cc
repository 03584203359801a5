#include "fovea/kernels/layer/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/emit-inl.h"
#include "fovea/kernels/simd/tanh-inl.h"

namespace fovea::kernels {
namespace {

// The tokens of a block: their logits stay in the last-level cache. Sums over tokens pass through memory once per
// block, which takes noticeable time beside products of tiles.
#if defined(FOVEA_TILES)
constexpr int64_t kTokens = 256;
#else
constexpr int64_t kTokens = 128;
#endif
constexpr int64_t kGroupColumns = 512;  // of the vocabulary at most: a piece of work; tokens x columns fit L2
constexpr int64_t kPadding = kLanes;    // floats between rows of logits, so that rows do not share cache sets

// The groups of the vocabulary. They depend on its size alone, so that every sum has one order.
struct Groups {
  explicit Groups(int64_t vocabulary)
      : size(padded_to(pieces_of(vocabulary, padded_to(pieces_of(vocabulary, kGroupColumns), 4)), kTileColumns)),
        count(pieces_of(vocabulary, size)) {}
  int64_t size, count;
};

template <class T>
class Run {
 public:
  using Step = typename StepOf<T>::type;

  Run(const CrossEntropyJob<T>& job, Executor& executor)
      : job_(job),
        executor_(executor),
        groups_(job.vocabulary),
        row_stride_(groups_.size + kPadding),
        padded_width_(padded_to(job.width, kTileColumns)) {}

  void run() {
    prepare();
    for (int64_t token = 0; token < job_.tokens; token += kTokens) {
      first_ = token;
      rows_ = std::min(kTokens, job_.tokens - token);
      read_tokens();
      executor_.run(groups_.count, [this](int64_t g, int) { logits(g); });
      finish_rows();
      if (wants_gradients()) {
        executor_.run(groups_.count, [this](int64_t g, int) { gradients(g); });
        executor_.run(pieces_of(rows_, kSumRows), [this](int64_t p, int) { sum_hidden(p * kSumRows); });
      }
    }
    if (wants_gradients()) {
      executor_.run(groups_.count, [this](int64_t g, int) { write_weight(g); });
    }
  }

 private:
  static constexpr int64_t kSumRows = 16;

  bool wants_gradients() const { return job_.grad_weight != nullptr; }
  int64_t first_column(int64_t g) const { return g * groups_.size; }
  int64_t columns(int64_t g) const { return std::min(groups_.size, job_.vocabulary - first_column(g)); }
  int64_t steps() const { return steps_of<Step>(job_.width); }
  int64_t group_steps() const { return steps_of<Step>(groups_.size); }
  // The logits of group g: [kTokens][row_stride_].
  float* group_logits(int64_t g) const { return logits_ + g * kTokens * row_stride_; }

  // The derivatives of row r's capped logits of group g.
  float* slopes_of(int64_t g, int64_t r) const { return slopes_ + (g * kTokens + r) * row_stride_; }

  void prepare() {
    const int64_t vocabulary = groups_.count * groups_.size;
    const int64_t block = kTokens * row_stride_ * groups_.count;
    const bool keeps_slopes = job_.softcap > 0 && wants_gradients();
    logits_ = thread_scratch(Use::kLogits).get<float>(keeps_slopes ? 2 * block : block);
    slopes_ = keeps_slopes ? logits_ + block : nullptr;
    weight_panels_ = thread_scratch(Use::kPanels).get<float>(vocabulary * steps());
    statistics_ = thread_scratch(Use::kStatistics).get<float>((3 * groups_.count + 3) * kTokens);
    if (wants_gradients()) {
      right_panels_ = thread_scratch(Use::kRightPanels).get<float>(groups_.count * group_steps() * padded_width_);
      weight_sums_ = thread_scratch(Use::kWeightSums).get<float>(vocabulary * (padded_width_ + 1));
      bias_sums_ = weight_sums_ + vocabulary * padded_width_;
      hidden_sums_ = thread_scratch(Use::kPartialSums).get<float>(groups_.count * kTokens * padded_width_);
    }
    token_panels_ = thread_scratch(Use::kTokens).get<float>(kTokens * (steps() + padded_width_));
    executor_.run(groups_.count, [this](int64_t g, int) { pack_weight(g); });
  }

  void pack_weight(int64_t g) {
    const T* weight = job_.weight + first_column(g) * job_.width;
    for (int64_t column = 0; column < columns(g); column += kTileColumns) {
      pack_transposed<Step>(weight + column * job_.width, job_.width, job_.width,
                            std::min<int64_t>(kTileColumns, columns(g) - column),
                            weight_panels_ + (first_column(g) + column) * steps());
    }
    if (!wants_gradients()) return;
    const Matrix<T> rows{weight, nullptr, job_.width, 0};
    pack_panels<Step>(rows, columns(g), job_.width, right_panels_ + g * padded_width_ * group_steps(),
                      kTileColumns * group_steps());
    std::fill_n(weight_sums_ + first_column(g) * padded_width_, groups_.size * padded_width_, 0.0F);
    std::fill_n(bias_sums_ + first_column(g), groups_.size, 0.0F);
  }

  // The block's hidden states, as the left factor of the logits and as the right factor of the weight's gradient.
  void read_tokens() {
    const Matrix<T> hidden{job_.hidden + first_ * job_.width, nullptr, job_.width, 0};
    left_ = left_rows<Step>(hidden, rows_, job_.width, token_panels_ + kTokens * padded_width_);
    if (!wants_gradients()) return;
    pack_panels<Step>(hidden, rows_, job_.width, token_panels_, kTileColumns * kTokens);
  }

  void logits(int64_t g) {
    float* to = group_logits(g);
    const float* panels = weight_panels_ + first_column(g) * steps();
    const SessionOf<Step> session;
    for (int64_t column = 0; column < columns(g); column += kTileColumns) {
      Write write{to + column, row_stride_};
      panel_product<Step, Line::kAlongDepth>(left_, rows_, panels + column * steps(), steps(), write);
    }
    for (int64_t r = 0; r < rows_; ++r) exponentials(g, r, to + r * row_stride_);
  }

  float& greatest_of(int64_t g, int64_t r) const { return statistics_[g * 3 * kTokens + r]; }
  float& sum_of(int64_t g, int64_t r) const { return statistics_[(g * 3 + 1) * kTokens + r]; }
  float& logits_of(int64_t g, int64_t r) const { return statistics_[(g * 3 + 2) * kTokens + r]; }
  float& target_logit(int64_t r) const { return statistics_[groups_.count * 3 * kTokens + r]; }

  // A row of logits becomes e^(logit - greatest of the group); its greatest, that sum and the logits' own are kept, the
  // latter less the greatest each: large logits would leave it few digits. The greatest of infinities alone is finite,
  // so that they weigh nothing.
  void exponentials(int64_t g, int64_t r, float* row) {
    const int64_t count = columns(g);
    const T* bias = job_.bias == nullptr ? nullptr : job_.bias + first_column(g);
    if (job_.softcap > 0) {
      cap_logits(g, r, row);
      bias = nullptr;
    }
    F greatest_so_far = set(kLowest);
    for (int64_t i = 0; i < count; i += kLanes) {
      F logit = load(row + i);
      if (bias != nullptr) logit = logit + load_some(bias + i, count - i);
      if (count - i < kLanes) logit = select(first(count - i), logit, set(-kInfinity));
      greatest_so_far = max(greatest_so_far, logit);
      store(row + i, logit);
    }
    const int64_t target = job_.targets[first_ + r] - first_column(g);
    if (target >= 0 && target < count) target_logit(r) = row[target];
    const float greatest_logit = greatest(greatest_so_far);
    F total = set(0), sum_of_logits = set(0);
    for (int64_t i = 0; i < count; i += kLanes) {
      const F less = load(row + i) - set(greatest_logit), e = exp_below_one(less);
      total = total + e;
      sum_of_logits = sum_of_logits + (count - i < kLanes ? select(first(count - i), less, set(0)) : less);
      store(row + i, e);
    }
    greatest_of(g, r) = greatest_logit;
    sum_of(g, r) = sum(total);
    logits_of(g, r) = sum(sum_of_logits);
  }

  // Adds the bias to a row of logits and caps it.
  void cap_logits(int64_t g, int64_t r, float* row) {
    const int64_t count = columns(g);
    const T* bias = job_.bias == nullptr ? nullptr : job_.bias + first_column(g);
    const SoftCap cap(job_.softcap);
    for (int64_t i = 0; i < count; i += kLanes) {
      const F logit = load(row + i);
      const Tanh capped = cap(bias == nullptr ? logit : logit + load_some(bias + i, count - i));
      store(row + i, capped.value);
      if (slopes_ != nullptr) store(slopes_of(g, r) + i, capped.slope);
    }
  }

  // The groups' sums together: the losses, and in sum_of(g, r) what turns group g's exponentials into probabilities.
  void finish_rows() {
    for (int64_t r = 0; r < rows_; ++r) {
      float most = kLowest, total = 0, sum_of_logits = 0;  // less `most` each
      for (int64_t g = 0; g < groups_.count; ++g) most = std::max(most, greatest_of(g, r));
      for (int64_t g = 0; g < groups_.count; ++g) {
        const float less = greatest_of(g, r) - most;
        sum_of_logits += logits_of(g, r) + less * static_cast<float>(columns(g));
        greatest_of(g, r) = std::exp(less);
        total += sum_of(g, r) * greatest_of(g, r);
      }
      for (int64_t g = 0; g < groups_.count; ++g) sum_of(g, r) = greatest_of(g, r) / total;
      const float log_total = std::log(total), nll = (most - target_logit(r)) + log_total;
      job_.nll[first_ + r] = nll;
      if (job_.best != nullptr) job_.best[first_ + r] = target_logit(r) >= most && !std::isnan(nll);
      if (job_.loss == nullptr) continue;
      const float mean = log_total - sum_of_logits / static_cast<float>(job_.vocabulary);
      // If a word of the vocabulary is impossible, the mean is infinite.
      job_.loss[first_ + r] = job_.smoothing == 0 ? nll : (1 - job_.smoothing) * nll + job_.smoothing * mean;
    }
  }

  void gradients(int64_t g) {
    float* logits = group_logits(g);
    for (int64_t r = 0; r < rows_; ++r) logit_gradients(g, r, logits + r * row_stride_);
    LeftFactor rows{reinterpret_cast<const char*>(logits), row_stride_ * 4, 4};
    LeftFactor along{reinterpret_cast<const char*>(logits), kStripRows * 4, row_stride_ * 4};
    if constexpr (Step::kDepth == 2) {
      // Rounded once, in the two orders that the products want: pairs of words, and pairs of tokens.
      const int64_t row_steps = row_stride_ / 2;
      auto* words = thread_scratch(Use::kGradient).template get<float>(kTokens * row_stride_ * 3 / 2);
      float* tokens = words + kTokens * row_steps;
      auto* bits = reinterpret_cast<uint16_t*>(words);
      for (int64_t r = 0; r < rows_; ++r) write_row(logits + r * row_stride_, bits + r * row_stride_, groups_.size);
      pack_depth_rows<Step>(Matrix<uint16_t>{bits, nullptr, row_stride_, 0}, rows_, groups_.size, tokens, row_stride_);
      rows = {reinterpret_cast<const char*>(words), row_steps * 4, 4};
      along = {reinterpret_cast<const char*>(tokens), kStripRows * 4, row_stride_ * 4};
      if constexpr (Step::kTiles) {
        const int64_t row_bytes = row_steps * 4, depth = steps_of<Step>(rows_), whole = columns(g) / 16 * 16;
        float* turned = tokens + kTokens * row_steps;
        turn_units({along.data, along.step_bytes}, groups_.size, depth, turned);
        const char* units = reinterpret_cast<const char*>(turned);
        rows.last = rows.data + rows_ / 16 * 16 * row_bytes, rows.last_row_bytes = row_bytes;
        along = {units, depth * 4, 4, units + whole * depth * 4, depth * 4};
      }
    }
    constexpr Line kAlong = Step::kTiles ? Line::kAlongDepth : Line::kAlongRows;
    const SessionOf<Step> session;
    const int64_t depth = steps_of<Step>(columns(g));
    for (int64_t column = 0; column < job_.width; column += kTileColumns) {
      Write write{hidden_sums_ + g * kTokens * padded_width_ + column, padded_width_};
      panel_product<Step, Line::kAlongDepth>(rows, rows_, right_panels_ + (g * padded_width_ + column) * group_steps(),
                                             depth, write);
      Accumulate add{weight_sums_ + first_column(g) * padded_width_ + column, padded_width_};
      panel_product<Step, kAlong>(along, columns(g), token_panels_ + column * kTokens, steps_of<Step>(rows_), add);
    }
  }

  // In place: p - smoothing / vocabulary, less 1 - smoothing at the target, times the slope of the cap; zeros beyond
  // the vocabulary.
  void logit_gradients(int64_t g, int64_t r, float* row) {
    const int64_t count = columns(g), target = job_.targets[first_ + r] - first_column(g);
    const F factor = set(sum_of(g, r)), share = set(-job_.smoothing / static_cast<float>(job_.vocabulary));
    for (int64_t i = 0; i < count; i += kLanes) store(row + i, fma(load(row + i), factor, share));
    std::fill(row + count, row + groups_.size, 0.0F);
    if (target >= 0 && target < count) row[target] -= 1 - job_.smoothing;
    for (int64_t i = 0; slopes_ != nullptr && i < count; i += kLanes) {
      const F grad = load(row + i) * load(slopes_of(g, r) + i);
      store(row + i, count - i < kLanes ? select(first(count - i), grad, set(0)) : grad);
    }
    if (job_.grad_bias == nullptr) return;
    float* sums = bias_sums_ + first_column(g);
    for (int64_t i = 0; i < groups_.size; i += kLanes) store(sums + i, load(sums + i) + load(row + i));
  }

  void sum_hidden(int64_t row) {
    float* total = hidden_sums_ + row * padded_width_;
    const int64_t rows = std::min(kSumRows, rows_ - row);
    for (int64_t g = 1; g < groups_.count; ++g) {
      const float* part = total + g * kTokens * padded_width_;
      for (int64_t i = 0; i < rows * padded_width_; i += kLanes) store(total + i, load(total + i) + load(part + i));
    }
    for (int64_t r = 0; r < rows; ++r) {
      write_row(total + r * padded_width_, job_.grad_hidden + (first_ + row + r) * job_.width, job_.width);
    }
  }

  void write_weight(int64_t g) {
    const int64_t begin = first_column(g);
    for (int64_t v = begin; v < begin + columns(g); ++v) {
      write_row(weight_sums_ + v * padded_width_, job_.grad_weight + v * job_.width, job_.width);
    }
    if (job_.grad_bias != nullptr) write_row(bias_sums_ + begin, job_.grad_bias + begin, columns(g));
  }

  const CrossEntropyJob<T>& job_;
  Executor& executor_;
  const Groups groups_;
  const int64_t row_stride_, padded_width_;
  int64_t first_ = 0, rows_ = 0;    // of the block in work
  LeftFactor left_;                 // its hidden states [rows_][steps]
  float* token_panels_ = nullptr;   // the same as panels of their width: [padded_width / kTileColumns][kTokens][...]
  float* logits_ = nullptr;         // [groups][kTokens][row_stride]
  float* slopes_ = nullptr;         // the same, of capped logits where gradients are wanted
  float* weight_panels_ = nullptr;  // [vocabulary / kTileColumns][steps][kTileColumns]
  float* right_panels_ = nullptr;   // [groups][padded_width / kTileColumns][group_steps][kTileColumns]
  float* statistics_ =
      nullptr;  // [groups][greatest, sum, sum of logits less it][kTokens], then [kTokens] logits of targets
  float* weight_sums_ = nullptr;  // [vocabulary][padded_width], then
  float* bias_sums_ = nullptr;    // [vocabulary]
  float* hidden_sums_ = nullptr;  // [groups][kTokens][padded_width]
};

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  Run(job..., executor).run();
}
template struct AtLevel<kThisIsa, CrossEntropyJob<float>>;
template struct AtLevel<kThisIsa, CrossEntropyJob<uint16_t>>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
