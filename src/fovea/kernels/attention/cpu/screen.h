#pragma once
#include <cstdint>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/simd/isa.h"

// Screening within one call: a selection does not need exact scores of the keys that it drops. All pairs are scored in
// a small format, with a proved bound on the error; keys that may still be selected are scored exactly. (key_screen.h
// is another thing: a copy of a cache's keys.) Normalised units:
//     query  x = +-q 2^-a      key  y = (k - m) 2^-b      score = f (x . y) + a constant of the row
// with m the mean of some keys (a constant of the row changes no selection) and f > 0.
namespace fovea::kernels {

constexpr int64_t kMaxScreenHeadDim = 256;  // room for a row in the kernels of lists

constexpr int kGroupKeys = 16;   // packed side by side
constexpr int kTileKeys = 64;    // the product's step
constexpr int kBlockKeys = 512;  // the scores of a block of queries stay in cache
constexpr int64_t kBlockGroups = kBlockKeys / kGroupKeys;
// The stride between the scores of two queries in a block: an odd number of cache lines, so that they use all sets.
constexpr int64_t kScoreStride = kBlockKeys + 16;
constexpr int kBlockQueries = 48;
constexpr int kProductQueries = 6;  // the product's step over queries

// kInt8: keys are bytes around 128, on ARM signed ones; queries are signed bytes. kBytePairs: the same, so small that
// sums fit in 16 bits. kInt16: both are signed, with as many bits as leave room for the sum. The sums of these formats
// are exact.
enum class ScreenFormat : uint8_t { kFloat32, kInt8, kInt16, kBytePairs };
constexpr bool is_integer(ScreenFormat format) { return format != ScreenFormat::kFloat32; }
constexpr bool is_bytes(ScreenFormat format) {
  return format == ScreenFormat::kInt8 || format == ScreenFormat::kBytePairs;
}
// The number of a query's values in a word.
constexpr int values_per_word(ScreenFormat format) {
  return format == ScreenFormat::kInt8 ? 4 : format == ScreenFormat::kFloat32 ? 1 : 2;
}

enum class ScoreType : uint8_t { kFloat32, kInt32, kInt16 };
constexpr ScoreType score_type(ScreenFormat format) {
  if (format == ScreenFormat::kBytePairs) return ScoreType::kInt16;
  return is_integer(format) ? ScoreType::kInt32 : ScoreType::kFloat32;
}
constexpr int scores_per_word(ScreenFormat format) { return score_type(format) == ScoreType::kInt16 ? 2 : 1; }

constexpr uint32_t in_both_halves(uint32_t low) { return (low & 0xffffU) * 0x10001U; }

constexpr int kPairKeys = 32;  // packed side by side in kBytePairs
// The place of a key and of its scores among these: the second and the third eight are exchanged, so that AVX2's pack
// instruction gives the hits in the order of the keys.
constexpr int64_t place_of_pair_key(int64_t key) { return (key & ~int64_t{24}) | (key & 8) << 1 | (key & 16) >> 1; }
// The number of words of kTileKeys keys, each of which needs half as many as a query in kBytePairs.
constexpr int64_t tile_words(ScreenFormat format, int64_t steps) {
  return kTileKeys * steps / (format == ScreenFormat::kBytePairs ? 2 : 1);
}

// Computes scores of queries and keys in one block, and a bit for each score that reaches its query's threshold.
// Scores, starts and thresholds are floats, or int32 for integer formats. In kBytePairs, they are int16: scores lie
// side by side, at place_of_pair_key(), from the beginning of a query's row on, each start and threshold stands in both
// halves of its word. A word of a query then holds two bytes twice, and keys are [num_tiles * 2, steps, kPairKeys]
// pairs of bytes.
struct ScreenTile {
  const uint32_t* queries = nullptr;     // [kBlockQueries, steps]
  const uint32_t* start = nullptr;       // [kBlockQueries]: what each sum begins with
  const uint32_t* thresholds = nullptr;  // [kBlockQueries]
  const uint32_t* keys = nullptr;        // [num_tiles * 4, steps, kGroupKeys]
  uint32_t* scores = nullptr;            // [kBlockQueries, kScoreStride], at the first key
  uint16_t* hits = nullptr;              // [kBlockQueries, kBlockGroups], at the first key
  int64_t steps = 0;                     // words of a vector
  int64_t num_queries = 0;               // a multiple of kProductQueries up to kBlockQueries
  int64_t num_tiles = 0;                 // of kTileKeys keys
};
using ScreenProduct = void (*)(const ScreenTile&);

void screen_product_int8(const ScreenTile& tile);   // AVX-512 with VNNI
void screen_product_int16(const ScreenTile& tile);  // AVX2
void screen_product_pairs(const ScreenTile& tile);  // AVX2

// The int8 product with ARM's products of signed bytes, at the level that has them.
template <Isa kIsa>
struct ScreenDot {
  static void product_int8(const ScreenTile& tile);
};

// The int8 product with tile instructions, at the levels that have them, if `steps` is a multiple of 16. The buffers
// need room for queries up to the next multiple of 16; the product reads and writes it.
template <Isa kIsa>
struct ScreenTiles {
  static void product_int8(const ScreenTile& tile);
};
constexpr int kTileQueries = 16;

// Values of a block of kBlockKeys keys for the bound on the error: greatest norms, in normalised units.
struct KeyBlock {
  float step = 1;      // integers: y of one unit
  float centred = 0;   // |y|
  float residual = 0;  // |y - packed y|, with the rounding of the product
  float plain = 0;     // |k 2^-b|
};

// The keys of one head of one sequence, in the screening format.
struct PackedKeys {
  int64_t num_keys = 0, width = 0;  // width: head_dim rounded up to 16
  int64_t steps = 0;
  ScreenFormat format = ScreenFormat::kFloat32;
  bool finite = true;           // otherwise nothing is screened
  int exponent = 0;             // b
  float plain = 0;              // the greatest |k 2^-b|
  const float* rows = nullptr;  // [num_keys, width]: k, zeros behind head_dim
  const float* mean = nullptr;  // [width]
  uint32_t* words = nullptr;    // as in ScreenTile, for num_keys rounded up to kTileKeys
  KeyBlock* blocks = nullptr;   // [ceil(num_keys / kBlockKeys)]
};

struct PackedQuery {
  bool finite = true;
  float step = 1;      // integers: x of one unit
  uint32_t start = 0;  // ScreenTile::start
  float factor = 1;    // f
  // The error bound of a block: residual * block.centred + norm * block.residual + exact * block.plain + tiny.
  float residual = 0, norm = 0, exact = 0, tiny = 0;
  float bound(const KeyBlock& block) const {
    return (residual * block.centred + norm * block.residual + exact * block.plain) * (1 + 0x1p-10F) + tiny;
  }
};

template <Isa kIsa>
struct ScreenPack {
  // Fills exponent, plain, finite, words and blocks from the other members.
  static void keys(PackedKeys& packed);
  // q: [width]; scale: on q . k; words: [steps].
  static PackedQuery query(const PackedKeys& keys, const float* q, float scale, uint32_t* words);
  static void product_float(const ScreenTile& tile);
};

// One row of a block after the product.
struct ScreenedRow {
  const uint32_t* scores = nullptr;   // [kBlockKeys] of `type`
  const uint16_t* hits = nullptr;     // [kBlockGroups]
  const uint64_t* allowed = nullptr;  // [kBlockKeys / 64]: bits of the keys that may attend; null: all
  float factor = 1;                   // of a score
  float bound = 0;
  int32_t first_key = 0;
  ScoreType type = ScoreType::kFloat32;
};

constexpr int kSampled = 64;

// The distribution of the scores of a block. high: the mean of the greatest of 16 parts, an estimate of a high
// quantile.
struct ScoreMoments {
  float mean = 0, deviation = 0, high = 0;
};

// The terms by offset of one row for one block's scores.
struct ScreenedTerms {
  const float *by_head = nullptr, *by_query = nullptr;  // may be null
  OffsetRange by_head_range = {}, by_query_range = {};
  int64_t first_offset = 0;  // of the block's first key
  float unit = 1;            // of the terms, in normalised units
  float least = 0;           // what a sum must reach for a hit
};

// Operations on a row's list of candidates: lower bounds of scores, and keys, with room for kBlockKeys more.
template <Isa kIsa>
struct ScreenScan {
  // Appends the row's hits to the list; returns the new count.
  static int64_t append(const ScreenedRow& row, float* bounds, int32_t* keys, int64_t count);
  // Lower bounds of kSampled of the row's scores, the greatest of disjoint parts; all its keys must be allowed.
  static void sample(const ScreenedRow& row, float* bounds);
  // The approximate moments of the row's scores; no result depends on them. All keys of the row must be allowed.
  static ScoreMoments moments(const ScreenedRow& row);
  // Converts the row's scores to floats in normalised units and adds the terms. Writes them to scores [kBlockKeys],
  // which may be the row's own array, and marks in hits [kBlockGroups] the scores that reach terms.least.
  static void add_terms(const ScreenedRow& row, const ScreenedTerms& terms, float* scores, uint16_t* hits);
  // Overwrites hits [kBlockGroups] with a mark for each score whose lower bound reaches `least`.
  static void mark(const ScreenedRow& row, float least, uint16_t* hits);
  // Keeps the entries at or above `least`, in order; returns the new count.
  static int64_t prune(float least, float* bounds, int32_t* keys, int64_t count);
  // Returns a value that at least k of the values reach, and at most k + slack if one is found quickly.
  static float reached_by(float* values, int64_t count, int64_t k, int64_t slack);
  // Returns the k-th greatest value, 1 <= k <= count; the values must not have a NaN.
  static float kth_greatest(float* values, int64_t count, int64_t k);
  static float greatest(float* values, int64_t count);
};

// The rows list[0 ... count - 1] of an array [*, width]; width is a multiple of 16.
struct ListedRows {
  const float* rows = nullptr;
  int64_t width = 0;
  const int32_t* list = nullptr;
  int64_t count = 0;
};

// Listed rows of sums to add to, in an array whose first row has the number `first`.
struct ListedSums {
  float* rows = nullptr;
  int64_t width = 0, first = 0;
  const int32_t* list = nullptr;
  int64_t count = 0;
};

// Exact work on lists of rows. The outputs `out` and `values` have room for 16 more floats; lists and weights are read
// to their end and no further.
template <Isa kIsa>
struct ExactRows {
  // Prefetches the listed rows while something else is computed: they lie anywhere in an array larger than a cache.
  static void fetch(const ListedRows& at);
  // out[i] = scale (x . rows[list[i]]), with the same order of operations for every list and every place in it.
  static void dots(const ListedRows& at, const float* x, float scale, float* out);
  // out = sum over i of weights[i] rows[list[i]], in the list's order.
  static void weighted_sum(const ListedRows& at, const float* weights, float* out);
  // rows[list[i] - first] += weights[i] x.
  static void scatter(const ListedSums& to, const float* weights, const float* x);
  // values = exp(values - greatest); returns their sum.
  static float exponentials(float* values, int64_t count, float greatest);
};

}  // namespace fovea::kernels
