#include "fovea/kernels/layer/prepacked_isa.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/int8-inl.h"
#include "fovea/kernels/layer/row_block-inl.h"

namespace fovea::kernels {
namespace {

// ---- the output layer's words, as its panels come out of the registers ----

constexpr float kLog2e = 1.44269504F;
constexpr float kNear = 16;  // a logit this far above the reference makes a new one: 2^23 of the sum's range

// 2^x for x in [-126, 100], relative error 1e-7; smaller x count as -126, NaN stays.
inline F power_of_two(F x) {
  const F bounded = max(set(-126.0F), x);
  constexpr float kShift = 12583039.0F;  // 1.5 2^23 + 127: the last bits of the sum are the exponent's
  const F shifted = bounded + set(kShift);
  const F t = bounded - (shifted - set(kShift));  // in [-0.5, 0.5]
  F p = set(1.32764720e-3F);                      // minimax of 2^t
  p = fma(p, t, set(9.67554133e-3F));
  p = fma(p, t, set(5.55071327e-2F));
  p = fma(p, t, set(2.40221197e-1F));
  p = fma(p, t, set(6.93146967e-1F));
  p = fma(p, t, set(1.00000007F));
  return p * as_float((I)((U)as_int(shifted) << 23));
}

// Words that may be among the n best, in no order: keeping many of them in order would cost more than the product.
struct ManyWords {
  using Word = std::pair<float, int32_t>;  // -logit, word: the better, the less
  Word* words = nullptr;                   // [2 n]
  int64_t count = 0;

  // All but the n best go when there is no more room. Returns the n-th's logit, or `least` when none went.
  float add(int32_t word, float logit, int64_t n, float least) {
    words[count++] = {-logit, word};
    return count < 2 * n ? least : keep_best(n);
  }
  float keep_best(int64_t n) {
    std::nth_element(words, words + n - 1, words + count);
    count = n;
    return -words[n - 1].first;
  }
};

// The state of one row after some panels: its n best words, and the sum over lanes of e^(logit - reference).
struct WordsRow {
  float* sums;  // [kLanes]
  int32_t* words;
  float* logits;  // [n], falling; the best n so far
  int64_t n;
  float least;         // the last of them, -infinity while there are fewer
  float reference;     // near the greatest logit so far
  ManyWords many;      // has room where there are many: then of `logits` only the first is known
  double log_sum = 0;  // once it is finished; not finite: there is no log-softmax

  void insert(int32_t word, float logit) {
    if (many.words != nullptr) {
      logits[0] = std::max(logits[0], logit);
      least = many.add(word, logit, n, least);
      return;
    }
    int64_t place = n - 1;
    for (; place > 0 && !(logits[place - 1] >= logit); --place) {
      logits[place] = logits[place - 1];
      words[place] = words[place - 1];
    }
    logits[place] = logit;
    words[place] = word;
    least = logits[n - 1];
  }

  // Many words in order.
  void settle() {
    if (many.count > n) many.keep_best(n);
    std::sort(many.words, many.words + many.count);
    for (int64_t i = 0; i < many.count; ++i) {
      logits[i] = -many.words[i].first;
      words[i] = many.words[i].second;
    }
  }
};

// Words come in rising order, so equals stay behind. Rarely called: few vectors hold one of the best.
[[gnu::noinline]] void consider(WordsRow& row, int64_t first_word, F low, F high) {
  float logits[kTileColumns];
  store(logits, low);
  store(logits + kLanes, high);
  for (int i = 0; i < kTileColumns; ++i) {
    if (logits[i] > row.least) row.insert(static_cast<int32_t>(first_word) + i, logits[i]);
  }
  if (!(row.logits[0] > row.reference + kNear)) return;
  const float before = row.reference;
  row.reference = row.logits[0];
  store(row.sums, load(row.sums) * power_of_two(set((before - row.reference) * kLog2e)));
}

// A panel's logits join what is known of the rows.
inline void add_words(WordsRow* rows, int64_t count, const float* products, const float* bias, int64_t first_word) {
  const F bias_low = load(bias), bias_high = load(bias + kLanes);
  for (int64_t r = 0; r < count; ++r) {
    WordsRow& row = rows[r];
    const F low = load(products + r * kTileColumns) + bias_low;
    const F high = load(products + r * kTileColumns + kLanes) + bias_high;
    const F least = set(row.least);
    if (bits(either(less(least, low), less(least, high))) != 0) consider(row, first_word, low, high);
    // The difference first: exact near the reference, where the terms are great.
    const F reference = set(row.reference), scale = set(kLog2e);
    const F powers = power_of_two((low - reference) * scale) + power_of_two((high - reference) * scale);
    store(row.sums, load(row.sums) + powers);
  }
}

// To rows side by side; on the way the next panel is asked for.
struct WriteAhead {
  float* products;
  const char* next_panel;
  int64_t ahead;  // bytes of it that each row asks for

  void row(int64_t r, F low, F high) const {
    for (int64_t i = 0; i < ahead; i += 64) __builtin_prefetch(next_panel + r * ahead + i);
    store(products + r * kTileColumns, low);
    store(products + r * kTileColumns + kLanes, high);
  }
};

// Logits of -infinity are words too where fewer than n others are: the lowest ones that are missing.
inline void fill_up(WordsRow& row) {
  constexpr int32_t kNone = -1;
  for (int64_t i = 0, next = 0; i < row.n; ++i) {
    if (row.words[i] != kNone) continue;
    const auto taken = [&](int64_t word) { return std::find(row.words, row.words + i, word) != row.words + i; };
    while (taken(next)) ++next;
    row.words[i] = static_cast<int32_t>(next);
  }
}

// A block of rows through all panels.
class WordsBlock {
 public:
  WordsBlock(const NextWords& job, int64_t first, int64_t rows) : job_(job), first_(first), count_(rows) {
    constexpr int64_t kMostSorted = 64;
    const bool many = job.n > kMostSorted;
    const int64_t each = kLanes + pieces_of(job.n, 16) * 16;
    auto* floats = thread_scratch(Use::kStatistics).get<float>(rows * each);
    auto* collected = thread_scratch(Use::kSums).get<ManyWords::Word>(many ? rows * 2 * job.n : 0);
    rows_ = thread_scratch(Use::kTokens).get<WordsRow>(rows);
    constexpr float kLeast = -1e38F;
    for (int64_t r = 0; r < rows; ++r) {
      float* sums = floats + r * each;
      std::fill_n(sums, each, 0.0F);
      std::fill_n(sums + kLanes, job.n, -kInfinity);
      int32_t* words = job.words + (first + r) * job.n;
      std::fill_n(words, job.n, -1);
      rows_[r] = {sums, words, sums + kLanes, job.n, -kInfinity, kLeast, {}};
      if (many) rows_[r].many.words = collected + r * 2 * job.n;
    }
  }

  // Returns the rows without a log-softmax.
  int64_t run() {
    const PrepackedLayer& output = *job_.output;
    const Matrix<float> hidden{job_.hidden + first_ * job_.hidden_stride, nullptr, job_.hidden_stride, 0};
    if (output.format() == LayerFormat::kInt8) {
      const Int8Rows<float> left(hidden, count_, output.depth());
      const BytesSession session;
      return run(
          [&](int64_t column, auto& emit) { left.multiply(output.panel(column), output.scales() + column, emit); });
    }
    const LeftFactor left{reinterpret_cast<const char*>(hidden.data), hidden.stride * 4, 4};
    return run([&](int64_t column, auto& emit) {
      panel_product<FloatStep, Line::kAlongDepth>(left, count_, output.panel(column), output.steps(), emit);
    });
  }

 private:
  // multiply(column, emit): the rows' products with the panel that begins at that column.
  template <class Multiply>
  int64_t run(const Multiply& multiply) {
    const PrepackedLayer& output = *job_.output;
    float* products = thread_scratch(Use::kLogits).get<float>(count_ * kTileColumns);
    const int64_t panel_bytes = output.steps() * kTileColumns * 4, ahead = pieces_of(panel_bytes, 64 * count_) * 64;
    for (int64_t column = 0; column < output.columns(); column += kTileColumns) {
      WriteAhead write{products, reinterpret_cast<const char*>(output.panel(column)) + panel_bytes, ahead};
      multiply(column, write);
      add_words(rows_, count_, products, output.bias() + column, column);
    }
    // The end's logit, from its panel once more.
    const int64_t panel = job_.eos / kTileColumns * kTileColumns;
    Write write{products, kTileColumns};
    multiply(panel, write);
    int64_t bad = 0;
    for (int64_t r = 0; r < count_; ++r) {
      bad += finish(r, products[r * kTileColumns + job_.eos - panel] + job_.output->bias()[job_.eos]) ? 0 : 1;
    }
    if (job_.asked_offsets != nullptr) find_asked(write, multiply);
    return bad;
  }

  // The logits of the asked words, from their panels once more.
  template <class Multiply>
  void find_asked(Write& write, const Multiply& multiply) {
    struct Asked {
      int64_t panel, row, place;
    };
    std::vector<Asked> all;
    for (int64_t r = 0; r < count_; ++r) {
      for (int64_t i = job_.asked_offsets[first_ + r]; i < job_.asked_offsets[first_ + r + 1]; ++i)
        all.push_back({job_.asked[i] / kTileColumns * kTileColumns, r, i});
    }
    std::sort(all.begin(), all.end(), [](const Asked& a, const Asked& b) { return a.panel < b.panel; });
    int64_t computed = -1;
    for (const auto& [panel, r, place] : all) {
      if (panel != computed) multiply(panel, write);
      computed = panel;
      const int64_t word = job_.asked[place];
      const float logit = write.sums[r * kTileColumns + word - panel] + job_.output->bias()[word];
      job_.asked_log_probs[place] = log_prob(rows_[r], logit);
    }
  }

  static float log_prob(const WordsRow& row, float logit) {
    return std::isfinite(row.log_sum) ? static_cast<float>(logit - row.log_sum) : -kInfinity;
  }

  bool finish(int64_t r, float eos_logit) {
    WordsRow& row = rows_[r];
    float* log_probs = job_.log_probs + (first_ + r) * job_.n;
    row.log_sum = row.reference + std::log(double{sum(load(row.sums))});
    if (!std::isfinite(row.logits[0])) row.log_sum = kInfinity;
    const bool finite = std::isfinite(row.log_sum);
    if (finite) {
      row.settle();
      fill_up(row);
    } else {
      for (int64_t i = 0; i < job_.n; ++i) row.words[i] = static_cast<int32_t>(i);
    }
    for (int64_t i = 0; i < job_.n; ++i) log_probs[i] = log_prob(row, row.logits[i]);
    job_.eos_log_prob[first_ + r] = log_prob(row, eos_logit);
    return finite;
  }

  const NextWords& job_;
  int64_t first_, count_;
  WordsRow* rows_;
};

}  // namespace

// ---- layers ----

template <Isa kLevel>
template <class T>
PackedSize PrepackedLayers<kLevel>::size(const LayerWeights<T>& from, LayerFormat format) {
  const int64_t panels = pieces_of(from.columns, kTileColumns);
  const bool int8 = format == LayerFormat::kInt8;
  const int64_t steps = int8 ? steps_of<AnyBytes>(from.depth) : steps_of<typename StepOf<T>::type>(from.depth);
  return {panels, steps, panels * kTileColumns};
}

template <Isa kLevel>
template <class T>
void PrepackedLayers<kLevel>::fill(const LayerWeights<T>& from, int64_t panel, PrepackedLayer& to) {
  const int64_t first = panel * kTileColumns, columns = std::min<int64_t>(kTileColumns, from.columns - first);
  const T* weight = from.weight + first * from.depth;
  float* words = to.panel(first);
  if (to.format() == LayerFormat::kInt8) {
    pack_int8(weight, from.depth, columns, words, to.scales() + first);
  } else {
    pack_transposed<typename StepOf<T>::type>(weight, from.depth, from.depth, columns, words);
  }
  for (int64_t n = 0; n < kTileColumns; ++n) {
    const float bias = n >= columns ? -kInfinity : from.bias == nullptr ? 0.0F : to_float(from.bias[first + n]);
    to.bias()[first + n] = bias;
  }
}

template <Isa kLevel>
template <class T>
void PrepackedLayers<kLevel>::run(const LayerRows<T>& job, Executor& executor) {
  const PrepackedLayer& layer = *job.layer;
  const RowsOf<T, float> rows{.a = {job.a, nullptr, job.a_stride, 0},
                              .panels = layer.panel(0),
                              .bias = layer.bias(),
                              .out = job.out,
                              .out_stride = job.out_stride,
                              .columns = layer.columns(),
                              .depth = layer.depth(),
                              .relu = job.relu};
  in_pieces(job.rows, executor, [&](int64_t first, int64_t count) {
    if (layer.format() == LayerFormat::kExact) return row_block(rows, first, count);
    const Int8Rows<T> left(rows.a.at(first, 0), count, layer.depth());
    const BytesSession session;
    for (int64_t column = 0; column < layer.columns(); column += kTileColumns) {
      Finish<T, float> finish = finish_of(rows, first, column);
      left.multiply(layer.panel(column), layer.scales() + column, finish);
    }
  });
}

template <Isa kLevel>
int64_t PrepackedLayers<kLevel>::run(const NextWords& job, Executor& executor) {
  std::atomic<int64_t> bad = 0;
  in_pieces(job.rows, executor, [&](int64_t first, int64_t count) { bad += WordsBlock(job, first, count).run(); });
  return bad;
}

template struct PrepackedLayers<kThisIsa>;
using Layers = PrepackedLayers<kThisIsa>;
template PackedSize Layers::size(const LayerWeights<float>&, LayerFormat);
template PackedSize Layers::size(const LayerWeights<uint16_t>&, LayerFormat);
template void Layers::fill(const LayerWeights<float>&, int64_t, PrepackedLayer&);
template void Layers::fill(const LayerWeights<uint16_t>&, int64_t, PrepackedLayer&);
template void Layers::run(const LayerRows<float>&, Executor&);
template void Layers::run(const LayerRows<uint16_t>&, Executor&);

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
