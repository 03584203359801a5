#pragma once
#include "fovea/kernels/layer/emit-inl.h"
#if FOVEA_ISA == 0 && defined(__SSE2__) && !defined(FOVEA_TILES)
#include <emmintrin.h>
#endif

// Products of int8: signed ones on the left, on the right such with 128 added, as processors multiply signed by
// unsigned ones; ARM's multiply signed ones. Sums are exact.
namespace fovea::kernels {
namespace {

constexpr float kInt8Top = 127;
constexpr int kRightOffset = FOVEA_NEON ? 0 : 128;  // of bytes on the right

// Halves of each lane, 16 bits each.
using Halves = int16_t __attribute__((vector_size(sizeof(I))));
using UnsignedHalves = uint16_t __attribute__((vector_size(sizeof(I))));

// In each lane, the products of its halves summed.
inline I multiply_halves(Halves a, Halves b) {
#if FOVEA_AVX512
  return (I)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif FOVEA_ISA == 1
  return (I)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__) && !defined(FOVEA_TILES)
  return (I)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  return ((I)a << 16 >> 16) * ((I)b << 16 >> 16) + ((I)a >> 16) * ((I)b >> 16);
#endif
}

inline I four_bytes(const char* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof word);
  return set_int(word);
}
inline I load_bytes(const float* p) { return load_int(reinterpret_cast<const int32_t*>(p)); }

struct IntSums {
  static constexpr bool kTiles = false;
  static constexpr int kDepth = 4;
  using Sum = I;
};

// Every level has these products; sums of two products of bytes would not fit 16 bits.
struct WidenedBytes : IntSums {
  struct Right {
    Halves even, odd;
  };
  static I zero() { return set_int(0); }
  static Right right(const float* panel) {
    const auto bytes = (UnsignedHalves)load_bytes(panel);
    return {(Halves)(bytes & 255), (Halves)(bytes >> 8)};
  }
  static I add(const char* a, const Right& b, I sum) {
    const auto bytes = (Halves)four_bytes(a);
    return sum + multiply_halves((Halves)(bytes << 8) >> 8, b.even) + multiply_halves(bytes >> 8, b.odd);
  }
};

#if FOVEA_AVX512
// One instruction, where the processor has VNNI; written out, as GCC 12 copies sums around its intrinsic.
struct BytesByVnni : IntSums {
  using Right = I;
  static I zero() { return set_int(0); }
  static I right(const float* panel) { return load_bytes(panel); }
  static I add(const char* a, I b, I sum) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(b), "v"(four_bytes(a)));
    return sum;
  }
};
#endif

#if defined(FOVEA_TILES)
struct BytesByTiles : IntSums {
  static constexpr bool kTiles = true;
  static I sums(const float* from) { return load_bytes(from); }
  template <int kSum, int kLeft, int kRight>
  static void multiply() {
    multiply_int8_tiles<kSum, kLeft, kRight>();
  }
};
using AnyBytes = BytesByTiles;
#elif FOVEA_NEON
struct SignedBytes : IntSums {
  using Right = I;
  static I zero() { return set_int(0); }
  static I right(const float* panel) { return load_bytes(panel); }
  static I add(const char* a, I b, I sum) {
    float word;
    std::memcpy(&word, a, sizeof word);
    return add_word_products(b, word, sum);
  }
};
using AnyBytes = SignedBytes;
#else
using AnyBytes = WidenedBytes;
#endif
// Around products of bytes.
using BytesSession = SessionOf<AnyBytes>;

// work(a step of bytes): the machine's fastest; all give the same sums.
template <class Work>
void with_bytes(Work&& work) {
#if FOVEA_AVX512 && !defined(FOVEA_TILES)
  if (has_int8_product()) return work(BytesByVnni{});
#endif
  work(AnyBytes{});
}

// x = scale * unit, |unit| <= 127.
struct Int8Scale {
  float scale, factor;  // factor: 1 / scale; what is not finite makes the scale NaN, so that all products show it
};
template <class T>
inline Int8Scale int8_scale(const T* x, int64_t n) {
  F most = set(0), poison = set(0);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F value = load_some(x + i, n - i);
    most = max(most, abs(value));
    poison = fma(value, set(0), poison);
  }
  if (sum(poison) != 0) return {__builtin_nanf(""), 0};
  const float top = greatest(most);
  // Below, 1 / scale might leave float's range; such numbers add nothing to a bias.
  if (top < 0x1p-100F) return {0, 0};
  return {top / kInt8Top, kInt8Top / top};
}

// The units of n numbers, `offset` added to each, to bytes; those of the last vector beyond n are `offset`. Returns the
// sum of the units.
template <class T>
inline int32_t to_int8(const T* x, int64_t n, float factor, int offset, char* bytes) {
  using Bytes = int8_t __attribute__((vector_size(kLanes)));
  I total = set_int(0);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F scaled = load_some(x + i, n - i) * set(factor);
    // A NaN becomes some unit: its scale says what it is.
    const I units = to_int(max(min(round(scaled), set(kInt8Top)), set(-kInt8Top)));
    total += units;
    const auto narrow = __builtin_convertvector(units + offset, Bytes);
    std::memcpy(bytes + i, &narrow, sizeof narrow);
  }
  int32_t sum_of_units = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum_of_units += total[lane];
  return sum_of_units;
}

// A panel out of columns of `depth` numbers each, and the columns' scales.
template <class T>
inline void pack_int8(const T* from, int64_t depth, int64_t columns, float* panel, float* scales) {
  const int64_t steps = steps_of<AnyBytes>(depth), padded = padded_to(steps * 4, kLanes);
  char* bytes = thread_scratch(Use::kLeft).get<char>(padded + kLanes);
  std::fill_n(bytes, padded, char{0});
  for (int64_t n = 0; n < kTileColumns; ++n) {
    const Int8Scale column = n < columns ? int8_scale(from + n * depth, depth) : Int8Scale{0, 0};
    scales[n] = column.scale;
    to_int8(from + std::min(n, columns - 1) * depth, depth, column.factor, kRightOffset, bytes);
    for (int64_t s = 0; s < steps; ++s) std::memcpy(panel + s * kTileColumns + n, bytes + s * 4, 4);
  }
}

// Rows as the left factor.
template <class T>
class Int8Rows {
 public:
  Int8Rows(const Matrix<T>& from, int64_t rows, int64_t depth)
      : rows_(rows), steps_(steps_of<AnyBytes>(depth)), row_bytes_(padded_to(steps_ * 4, 64)) {
    const int64_t room = padded_to(rows, 16) * row_bytes_;  // of whole tiles
    bytes_ = thread_scratch(Use::kLeft).get<char>(room + rows * 8);
    scales_ = reinterpret_cast<float*>(bytes_ + room);
    starts_ = reinterpret_cast<int32_t*>(scales_ + rows);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = from.at(r, 0).data;
      const Int8Scale of_row = int8_scale(row, depth);
      scales_[r] = of_row.scale;
      char* bytes = bytes_ + r * row_bytes_;
      const int64_t written = padded_to(depth, kLanes);
      std::fill(bytes + std::min(written, row_bytes_), bytes + row_bytes_, char{0});
      starts_[r] = -kRightOffset * to_int8(row, depth, of_row.factor, 0, bytes);
    }
  }

  // emit.row(r, low, high) for the products with a panel, in a BytesSession; scales: of its columns.
  template <class Emit>
  void multiply(const float* panel, const float* scales, Emit& emit) const {
    Scaled<Emit> scaled{emit, scales_, starts_, scales};
    with_bytes([&]<class Step>(Step) {
      const LeftFactor left = {bytes_, row_bytes_, 4, bytes_ + rows_ / 16 * 16 * row_bytes_, row_bytes_};
      panel_product<Step, Line::kAlongDepth>(left, rows_, panel, steps_, scaled);
    });
  }

 private:
  template <class Emit>
  struct Scaled {
    Emit& emit;
    const float* rows;
    const int32_t* starts;  // what the offsets of the weights come to
    const float* columns;

    void row(int64_t r, I low, I high) const {
      const F scale = set(rows[r]);
      const I start = set_int(starts[r]);
      emit.row(r, to_float(low + start) * (scale * load(columns)),
               to_float(high + start) * (scale * load(columns + kLanes)));
    }
  };

  int64_t rows_, steps_, row_bytes_;
  char* bytes_;
  float* scales_;
  int32_t* starts_;
};

}  // namespace
}  // namespace fovea::kernels
