#pragma once
#include "fovea/kernels/attention/cpu/rows-inl.h"

// Products of one array's rows with another's: by floats, or by pairs of bfloat16 as they lie, if Bf16Flags says so.
// Products of pairs, too, are exact in float32 and summed there. AVX-512 adds the two of a pair to the sum one after
// the other; ARM adds them to each other first.
namespace fovea::kernels {
namespace {

class RowDots {
 public:
  RowDots() = default;
  RowDots(const HeadRows& left, const HeadRows& right, int64_t width, Words words)
      : left_(left), right_(right), words_(width), bf16_(words == Words::kBf16) {
    if (!bf16_) return;
    left_.lane = right_.lane = Lane::kBf16Word;
    words_ = width / 2;
  }

  int64_t stride() const { return round_up(words_, kLanes); }
  // [tokens][stride()].
  void pack_left(const TokenList& at, int64_t tokens, float* out) const { pack_rows(left_, at, tokens, words_, out); }
  // Packs the rows like pack_left(), unless the array holds them so.
  const float* packed_left(const TokenList& at, int64_t tokens, float* room) const {
    return packed_rows(left_, at, tokens, words_, room);
  }
  // Packs the rows like pack_left(), or returns `floats`, where they already lie as floats. room: [tokens][stride()].
  const float* left(const TokenList& at, int64_t tokens, const float* floats, float* room) const {
    if (!bf16_) return floats;
    pack_left(at, tokens, room);
    return room;
  }
  void pack_right(const TokenList& at, int64_t tokens, float* panels) const {
    pack_panels(right_, at, tokens, words_, panels);
  }
  // The products of rows with packed ones, times `factor`.
  struct Block {
    const float* left = nullptr;
    int64_t left_row = 0;
    const float* panels = nullptr;
    float* out = nullptr;
    int64_t out_row = 0;
    float factor = 1;
  };
  void multiply(const Block& block, int64_t rows, ColumnPart part) const {
    const ScoreProduct product = {block.left, block.left_row, block.panels, words_,
                                  block.out,  block.out_row,  &block.factor};
    if constexpr (kBf16Pairs) {
      if (bf16_) return multiply_panels<Words::kBf16>(product, rows, part);
    }
    multiply_panels(product, rows, part);
  }

 private:
  HeadRows left_, right_;
  int64_t words_ = 0;  // of a row
  bool bf16_ = false;
};

}  // namespace
}  // namespace fovea::kernels
