#pragma once
#include "fovea/kernels/attention/cpu/product-inl.h"
#include "fovea/kernels/simd/transpose-inl.h"

// Rows of a [tokens, H, D] array into contiguous float32, or words of two bfloat16, padded with zeros to whole vectors.
namespace fovea::kernels {
namespace {

constexpr int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
constexpr int64_t round_down(int64_t n, int64_t step) { return n / step * step; }

// A row's numbers: float32, bfloat16, or two of bfloat16 for each lane, as they lie, for products of Words::kBf16.
enum class Lane : uint8_t { kFloat, kBFloat16, kBf16Word };

// One head's rows of an array of float32 or bfloat16.
struct HeadRows {
  const void* data = nullptr;  // of token 0, this head
  int64_t stride = 0;          // between tokens, in elements of the array
  Lane lane = Lane::kFloat;
};

template <class T>
HeadRows head_rows(const Rows<T>& rows, int64_t head, DType dtype) {
  const bool bf16 = dtype == DType::kBFloat16;
  const auto* data = static_cast<const char*>(rows.data) + head * rows.head_stride * (bf16 ? 2 : 4);
  return {data, rows.token_stride, bf16 ? Lane::kBFloat16 : Lane::kFloat};
}

// work(load), load(token, i) being lanes i ... i + kLanes - 1 of the token's row, zero past the `width` lanes that it
// has: one loop each for whole vectors of floats, for floats, for bfloat16 and for words of two.
template <class Work>
void with_loader(const HeadRows& rows, int64_t width, Work&& work) {
  if constexpr (kBf16Pairs || kThisIsa == Isa::kAvx512Amx || kThisIsa == Isa::kAmxEmulated) {
    if (rows.lane == Lane::kBf16Word) {
      const auto* data = static_cast<const uint16_t*>(rows.data);
      return work([=](int64_t token, int64_t i) {
        return load_part(reinterpret_cast<const float*>(data + token * rows.stride + 2 * i), width - i);
      });
    }
  }
  if (rows.lane == Lane::kBFloat16) {
    const auto* data = static_cast<const uint16_t*>(rows.data);
    return work([=](int64_t token, int64_t i) {
      const uint16_t* p = data + token * rows.stride + i;
      if (i + kLanes <= width) return load_bf16(p);
      uint16_t lanes[kLanes] = {};
      std::memcpy(lanes, p, static_cast<size_t>(width - i) * sizeof *p);
      return load_bf16(lanes);
    });
  }
  const auto* data = static_cast<const float*>(rows.data);
  if (width % kLanes == 0) return work([=](int64_t token, int64_t i) { return load(data + token * rows.stride + i); });
  work([=](int64_t token, int64_t i) {
    const float* p = data + token * rows.stride + i;
    return i + kLanes <= width ? load(p) : load_part(p, width - i);
  });
}

// Tokens first, first + step, ... of an array, or first + list[0], first + list[1], ...; with `places` these are not
// the tokens but where in `places` they stand.
struct TokenList {
  int64_t first = 0, step = 1;
  const int32_t* list = nullptr;
  const int64_t* places = nullptr;
  int64_t operator[](int64_t i) const {
    const int64_t at = first + (list == nullptr ? i * step : list[i]);
    return places == nullptr ? at : places[at];
  }
};

// Asks for the token's row; it may lie behind the array's end.
inline void prefetch_row(const HeadRows& rows, int64_t token, int64_t width) {
  const int64_t element = rows.lane == Lane::kFloat ? 4 : 2, lane = rows.lane == Lane::kBFloat16 ? 2 : 4;
  const char* row = static_cast<const char*>(rows.data) + token * rows.stride * element;
  for (int64_t byte = 0; byte < width * lane; byte += 64) __builtin_prefetch(row + byte);
}

// Rows of one head lie far apart: without help, packing waits for each.
constexpr int64_t kPackedAhead = 8;

// out[t][i], t < tokens, i < round_up(width, kLanes); rows `stride` apart.
inline void pack_rows(const HeadRows& rows, const TokenList& at, int64_t tokens, int64_t width, float* out) {
  const int64_t padded = round_up(width, kLanes);
  with_loader(rows, width, [&](const auto& load_row) {
    for (int64_t t = 0; t < tokens; ++t) {
      if (t + kPackedAhead < tokens) prefetch_row(rows, at[t + kPackedAhead], width);
      const int64_t token = at[t];
      for (int64_t i = 0; i < padded; i += kLanes) store(out + t * padded + i, load_row(token, i));
    }
  });
}

// The rows as pack_rows() lays them out, if the array holds them so; else null.
inline const float* rows_in_place(const HeadRows& rows, const TokenList& at, int64_t width) {
  const bool follow = at.list == nullptr && at.places == nullptr && at.step == 1;
  if (rows.lane != Lane::kFloat || rows.stride != width || width % kLanes != 0 || !follow) return nullptr;
  return static_cast<const float*>(rows.data) + at.first * width;
}

// The rows where they lie, or packed into `room`.
inline const float* packed_rows(const HeadRows& rows, const TokenList& at, int64_t tokens, int64_t width, float* room) {
  if (const float* own = rows_in_place(rows, at, width)) return own;
  pack_rows(rows, at, tokens, width, room);
  return room;
}

// Rows of `width` floats, padded to whole vectors.
struct PackedRows {
  const float* data = nullptr;
  int64_t stride = 0, width = 0;
};

// Writes `tokens` packed rows back to an array of float32 or bfloat16.
inline void unpack_rows(const PackedRows& from, const HeadRows& to, const TokenList& at, int64_t tokens) {
  const int64_t width = from.width;
  const float* in = from.data;
  void* data = const_cast<void*>(to.data);
  for (int64_t t = 0; t < tokens; ++t, in += from.stride) {
    const int64_t place = at[t] * to.stride;
    if (to.lane == Lane::kFloat) {
      float* p = static_cast<float*>(data) + place;
      for (int64_t i = 0; i < width; i += kLanes) {
        if (i + kLanes <= width) {
          store(p + i, load(in + i));
        } else {
          store_part(p + i, load(in + i), width - i);
        }
      }
      continue;
    }
    uint16_t* p = static_cast<uint16_t*>(data) + place;
    for (int64_t i = 0; i < width; i += kLanes) {
      uint16_t lanes[kLanes];
      const bool whole = i + kLanes <= width;
      store_bf16(whole ? p + i : lanes, load(in + i));
      if (!whole) std::memcpy(p + i, lanes, static_cast<size_t>(width - i) * sizeof *p);
    }
  }
}

// Tokens as columns: panel p holds tokens p * kPanel ..., out[p][i][token in panel] for i < width. The last panel has
// room for kPanel tokens; places past the end, up to a whole vector, repeat the last token, the rest is left as it is.
inline void pack_panels(const HeadRows& rows, const TokenList& at, int64_t tokens, int64_t width, float* out) {
  with_loader(rows, width, [&](const auto& load_row) {
    for (int64_t t = 0; t < tokens; t += kLanes) {
      float* column = out + t / kPanel * (kPanel * width) + t % kPanel;
      int64_t token[kLanes];
      const int64_t height = std::min<int64_t>(kLanes, tokens - t);
      for (int64_t r = 0; r < kLanes; ++r) token[r] = at[t + std::min(r, height - 1)];
      for (int64_t i = 0; i < width; i += kLanes) {
        F square[kLanes];
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r) square[r] = load_row(token[r], i);
        transpose(square);
        if (i + kLanes <= width) {
#pragma GCC unroll 16
          for (int64_t c = 0; c < kLanes; ++c) store(column + (i + c) * kPanel, square[c]);
        } else {
          for (int64_t c = 0; i + c < width; ++c) store(column + (i + c) * kPanel, square[c]);
        }
      }
    }
  });
}

// Floats that pack_panels writes to.
constexpr int64_t panel_floats(int64_t tokens, int64_t width) { return round_up(tokens, kPanel) * width; }

}  // namespace
}  // namespace fovea::kernels
