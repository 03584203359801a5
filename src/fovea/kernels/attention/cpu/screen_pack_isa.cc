#include <cmath>
#include <cstdint>
#include <cstring>

#include "fovea/kernels/attention/cpu/screen.h"
#include "fovea/kernels/simd/isa.h"
// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"
#include "fovea/kernels/simd/simd-inl.h"

#include "fovea/kernels/attention/cpu/extent-inl.h"

namespace fovea::kernels {
namespace {

// This is added to the units of keys in formats of bytes, as processors multiply signed bytes by unsigned ones; ARM's
// multiply signed ones.
constexpr int32_t kKeyOffset = FOVEA_NEON ? 0 : 128;
constexpr float kUnit = 0x1p-24F;  // half a float's last place, relative

// The rounding error of a sum of `width` products in the format, relative to the vectors' norms. The estimate is
// generous, because it is small beside the rounding of the vectors themselves.
float product_rounding(ScreenFormat format, int64_t width) {
  const auto terms = static_cast<float>(width);
  return kUnit * (32 + (is_integer(format) ? 0 : terms));
}

// The binary exponent of the greatest value, within what 2^x can undo.
int exponent_of(float top) {
  if (top == 0) return 0;
  const int exponent = __builtin_ilogbf(top);
  return exponent < -120 ? -120 : exponent > 120 ? 120 : exponent;
}

float larger(float a, float b) { return a > b ? a : b; }

// The greatest whole number of an integer format: in kInt16 sums of `width` products stay below 2^30.
float top_unit(ScreenFormat format, int64_t width) {
  if (is_bytes(format)) return 127;
  const float most = __builtin_floorf(__builtin_sqrtf(0x1p30F / static_cast<float>(width))) - 1;
  return most < 32767 ? most : 32767;
}
// Two products of a byte of a key, at most 255, with one of a query must fit in 16 bits.
constexpr float kTopPairQuery = 64;

// kBytePairs: sums wrap around at 16 bits, so each must fit in 16 bits in the end. No sum exceeds the product of the
// norms of its two vectors of whole numbers (Cauchy and Schwarz), so norms up to this one are enough: 181^2 = 32761.
constexpr float kMostPairNorm = 181;

// kBytePairs: the least step with which a vector of norm |y| keeps to kMostPairNorm. Rounding y / step to whole numbers
// moves each by 1/2 at most, so it adds half the root of the width to the norm; the last factor covers the rounding of
// |y| and of the step. Widths up to 256 leave 173 units.
float step_for_norm(float norm, int64_t width) {
  return norm / (kMostPairNorm - 0.5F * __builtin_sqrtf(static_cast<float>(width))) * (1 + 0x1p-10F);
}

struct Norms {
  float exact = 0, residual = 0;  // |y|, |y - packed y|
};

// Writes y = (x - mean) factor in the format, as words of values_per_word that lie `stride` bytes apart. kBytePairs: as
// pairs of bytes, each `copies` times.
struct Packer {
  ScreenFormat format;
  float factor;
  float step;  // integers
  float top;   // integers: the greatest
  int64_t stride;
  uint32_t offset;  // of bytes: kKeyOffset for keys
  int64_t copies = 1;

  Norms operator()(const float* x, const float* mean, int64_t width, char* to, int32_t* total) const {
    F exact = set(0), residual = set(0);
    I units_sum = set_int(0);
    alignas(64) int32_t units[kMaxScreenHeadDim + kLanes];
    for (int64_t i = 0; i < width; i += kLanes) {
      const F centred = mean == nullptr ? load(x + i) : load(x + i) - load(mean + i);
      const F y = centred * set(factor);
      F packed = y;
      if (is_integer(format)) {
        const F whole = max(set(-top), min(set(top), round(y * set(1 / step))));
        packed = whole * set(step);
        const I as_units = to_int(whole);
        units_sum += as_units;
        store_int(units + i, as_units);
      } else {
        for (int lane = 0; lane < kLanes; ++lane) {
          const float value = y[lane];
          std::memcpy(to + (i + lane) * stride, &value, sizeof value);
        }
      }
      const F lost = y - packed;
      exact = fma(y, y, exact);
      residual = fma(lost, lost, residual);
    }
    if (format == ScreenFormat::kInt16) {
      for (int64_t i = 0; i < width; i += 2) {
        const uint32_t low = static_cast<uint32_t>(units[i]) & 0xffffU, high = static_cast<uint32_t>(units[i + 1]);
        const uint32_t word = low | high << 16;
        std::memcpy(to + i / 2 * stride, &word, sizeof word);
      }
    } else if (format == ScreenFormat::kInt8) {
      for (int64_t i = 0; i < width; i += 4) {
        const uint32_t word = bytes<4>(units + i);
        std::memcpy(to + i / 4 * stride, &word, sizeof word);
      }
    } else if (format == ScreenFormat::kBytePairs) {
      for (int64_t i = 0; i < width; i += 2) {
        const auto pair = static_cast<uint16_t>(bytes<2>(units + i));
        for (int64_t copy = 0; copy < copies; ++copy) {
          std::memcpy(to + i / 2 * stride + copy * 2, &pair, sizeof pair);
        }
      }
    }
    *total = 0;
    for (int lane = 0; lane < kLanes; ++lane) *total += units_sum[lane];
    return {__builtin_sqrtf(sum(exact)), __builtin_sqrtf(sum(residual))};
  }

 private:
  template <int kCount>
  uint32_t bytes(const int32_t* units) const {
    uint32_t word = 0;
    for (int b = kCount - 1; b >= 0; --b) word = word << 8 | ((static_cast<uint32_t>(units[b]) + offset) & 0xffU);
    return word;
  }
};

// The words or pairs of bytes of packed keys.
struct KeyWords {
  int64_t side_by_side;  // keys
  int64_t size;          // bytes
  explicit KeyWords(ScreenFormat format)
      : side_by_side(format == ScreenFormat::kBytePairs ? kPairKeys : kGroupKeys),
        size(format == ScreenFormat::kBytePairs ? 2 : 4) {}
  int64_t stride() const { return side_by_side * size; }
  // Returns the place of a key's first one.
  char* first(const PackedKeys& p, int64_t key) const {
    const int64_t group = key / side_by_side, at = key % side_by_side;
    const int64_t place = side_by_side == kPairKeys ? place_of_pair_key(at) : at;
    return reinterpret_cast<char*>(p.words) + group * p.steps * stride() + place * size;
  }
};

// The step of the keys begin ... end - 1, of which `top` is the greatest value in normalised units.
float step_of_keys(const PackedKeys& p, Span keys, float top, float factor) {
  const bool pairs = p.format == ScreenFormat::kBytePairs;
  // Otherwise the step is 1, with all units zero: its inverse would be infinite, and squares would be too small.
  if (!(top > (pairs ? 0x1p-60F : 0x1p-100F))) return 1;
  float step = top / top_unit(p.format, p.width);
  for (int64_t key = keys.begin; pairs && key < keys.end; ++key) {
    step = larger(step, step_for_norm(norm_of(p.rows + key * p.width, p.mean, p.width, factor), p.width));
  }
  return step;
}

void pack_block(PackedKeys& p, int64_t index, float factor) {
  const int64_t begin = index * kBlockKeys;
  const int64_t end = begin + kBlockKeys < p.num_keys ? begin + kBlockKeys : p.num_keys;
  KeyBlock& block = p.blocks[index];
  const float top = block.centred;  // left there by keys()
  block = {};
  const float most = top_unit(p.format, p.width);
  block.step = step_of_keys(p, {begin, end}, top * factor, factor);
  const KeyWords pieces(p.format);
  const Packer packer{p.format, factor, block.step, most, pieces.stride(), kKeyOffset};
  const float rounding = product_rounding(p.format, p.width);
  for (int64_t key = begin; key < end; ++key) {
    char* words = pieces.first(p, key);
    const float* row = p.rows + key * p.width;
    int32_t total = 0;
    const Norms norms = packer(row, p.mean, p.width, words, &total);
    for (int64_t s = p.width / values_per_word(p.format); s < p.steps; ++s) {
      std::memset(words + s * pieces.stride(), 0, static_cast<size_t>(pieces.size));
    }
    F plain = set(0);
    for (int64_t i = 0; i < p.width; i += kLanes) {
      const F scaled = load(row + i) * set(factor);
      plain = fma(scaled, scaled, plain);
    }
    block.centred = larger(block.centred, norms.exact);
    block.plain = larger(block.plain, __builtin_sqrtf(sum(plain)));
    // In addition to the packing error: the rounding of k - mean, and of the sum of products.
    block.residual =
        larger(block.residual, norms.residual + 2 * kUnit * norms.exact + rounding * (norms.exact + norms.residual));
  }
  // Squares below the smallest float are lost.
  block.centred += 0x1p-60F;
  block.residual += 0x1p-60F;
  block.plain += 0x1p-60F;
  p.plain = larger(p.plain, block.plain);
}

#if !FOVEA_NEON  // whose own is in screen_neon_isa.cc
constexpr int kQueries = kLanes == 4 ? 3 : 6, kVectors = kLanes == 8 ? 2 : 4;

void float_micro_tile(const ScreenTile& t, int64_t query, int64_t key) {
  F sums[kQueries][kVectors];
  for (auto& row : sums) {
    for (F& one : row) one = set(0);
  }
  const float* queries = reinterpret_cast<const float*>(t.queries) + query * t.steps;
  const float* keys = reinterpret_cast<const float*>(t.keys);
  for (int64_t s = 0; s < t.steps; ++s) {
    F vectors[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = key + v * kLanes;
      vectors[v] = load(keys + (at / kGroupKeys * t.steps + s) * kGroupKeys + at % kGroupKeys);
    }
    for (int i = 0; i < kQueries; ++i) {
      const F x = set(queries[i * t.steps + s]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fma(vectors[v], x, sums[i][v]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    const F least = set(reinterpret_cast<const float*>(t.thresholds)[query + i]);
    auto* scores = reinterpret_cast<float*>(t.scores) + (query + i) * kScoreStride + key;
    uint64_t all = 0;
    for (int v = 0; v < kVectors; ++v) {
      store(scores + v * kLanes, sums[i][v]);
      all |= static_cast<uint64_t>(bits(less_equal(least, sums[i][v]))) << (v * kLanes);
    }
    for (int v = 0; v < kVectors * kLanes; v += kGroupKeys) {
      t.hits[(query + i) * kBlockGroups + (key + v) / kGroupKeys] = static_cast<uint16_t>(all >> v);
    }
  }
}
#endif

}  // namespace

template <Isa kIsa>
void ScreenPack<kIsa>::keys(PackedKeys& p) {
  const int64_t num_blocks = (p.num_keys + kBlockKeys - 1) / kBlockKeys;
  float top = 0;
  p.finite = true;
  for (int64_t b = 0; b < num_blocks; ++b) {
    float block_top = 0;
    for (int64_t key = b * kBlockKeys; key < p.num_keys && key < (b + 1) * kBlockKeys; ++key) {
      const Extent extent = extent_of(p.rows + key * p.width, p.mean, p.width);
      p.finite = p.finite && extent.finite;
      block_top = larger(block_top, extent.top);
    }
    p.blocks[b].centred = block_top;
    top = larger(top, block_top);
  }
  if (!p.finite) return;
  p.exponent = exponent_of(top);
  p.plain = 0;
  for (int64_t b = 0; b < num_blocks; ++b) pack_block(p, b, __builtin_ldexpf(1, -p.exponent));
  // The padding of the last tile is never allowed, but it must hold numbers.
  const KeyWords pieces(p.format);
  for (int64_t key = p.num_keys; key % kTileKeys != 0; ++key) {
    for (int64_t s = 0; s < p.steps; ++s) {
      std::memset(pieces.first(p, key) + s * pieces.stride(), 0, static_cast<size_t>(pieces.size));
    }
  }
}

template <Isa kIsa>
PackedQuery ScreenPack<kIsa>::query(const PackedKeys& keys, const float* q, float scale, uint32_t* words) {
  PackedQuery packed;
  const Extent extent = extent_of(q, nullptr, keys.width);
  const int exponent = exponent_of(extent.finite ? extent.top : 0);
  const double factor = __builtin_ldexp(scale < 0 ? -double{scale} : double{scale}, exponent + keys.exponent);
  packed.factor = static_cast<float>(factor);
  packed.finite = extent.finite && packed.factor > 0x1p-120F && packed.factor < 0x1p120F;
  if (!packed.finite) {
    std::memset(words, 0, static_cast<size_t>(keys.steps) * sizeof *words);
    return packed;
  }
  const float power = __builtin_ldexpf(scale < 0 ? -1.0F : 1.0F, -exponent);
  const float top = extent.top * __builtin_fabsf(power);
  const bool pairs = keys.format == ScreenFormat::kBytePairs;
  const float most = pairs ? kTopPairQuery : top_unit(keys.format, keys.width);
  if (top > 0) packed.step = top / most;
  if (pairs) packed.step = larger(packed.step, step_for_norm(norm_of(q, nullptr, keys.width, power), keys.width));
  int32_t total = 0;
  const Packer packer{keys.format, power, packed.step, most, sizeof *words, 0, 2};
  const Norms norms = packer(q, nullptr, keys.width, reinterpret_cast<char*>(words), &total);
  for (int64_t s = keys.width / values_per_word(keys.format); s < keys.steps; ++s) words[s] = 0;
  // Takes the offset of the keys' bytes back.
  const auto start = static_cast<uint32_t>(-kKeyOffset * total);
  packed.start = pairs ? in_both_halves(start) : keys.format == ScreenFormat::kInt8 ? start : 0;
  packed.residual = norms.residual;
  packed.norm = norms.exact + norms.residual;
  // Exact scores are products that are scaled afterwards. If the products overflow, nothing is proved of the scores.
  packed.finite = __builtin_ldexp(double{packed.norm} * keys.plain, exponent + keys.exponent) < 0x1p126;
  const auto width = static_cast<float>(keys.width);
  packed.exact = packed.norm * (width / kLanes + 32) * 2 * kUnit;
  // Covers products of the exact score that are too small for a float, and products that are flushed to zero here.
  packed.tiny = width * 0x1p-125F * larger(1, __builtin_fabsf(scale)) / packed.factor + 0x1p-60F;
  return packed;
}

#if !FOVEA_NEON
template <Isa kIsa>
void ScreenPack<kIsa>::product_float(const ScreenTile& tile) {
  for (int64_t key = 0; key < tile.num_tiles * kTileKeys; key += kVectors * kLanes) {
    for (int64_t query = 0; query < tile.num_queries; query += kQueries) float_micro_tile(tile, query, key);
  }
}
#endif

template struct ScreenPack<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
