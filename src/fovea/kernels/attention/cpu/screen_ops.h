#pragma once
#include "fovea/kernels/attention/cpu/entmax_solve.h"
#include "fovea/kernels/attention/cpu/screen.h"

namespace fovea::kernels {

// The vector code of one instruction set.
struct ScreenOps {
  decltype(&ScreenPack<Isa::kPortable>::keys) pack_keys;
  decltype(&ScreenPack<Isa::kPortable>::query) pack_query;
  ScreenProduct product_float;
  decltype(&ScreenScan<Isa::kPortable>::append) append;
  decltype(&ScreenScan<Isa::kPortable>::sample) sample;
  decltype(&ScreenScan<Isa::kPortable>::moments) moments;
  decltype(&ScreenScan<Isa::kPortable>::add_terms) add_terms;
  decltype(&ScreenScan<Isa::kPortable>::mark) mark;
  decltype(&ScreenScan<Isa::kPortable>::prune) prune;
  decltype(&ScreenScan<Isa::kPortable>::reached_by) reached_by;
  decltype(&ScreenScan<Isa::kPortable>::kth_greatest) kth_greatest;
  decltype(&ScreenScan<Isa::kPortable>::greatest) greatest;
  decltype(&ExactRows<Isa::kPortable>::fetch) fetch;
  decltype(&ExactRows<Isa::kPortable>::dots) dots;
  decltype(&ExactRows<Isa::kPortable>::weighted_sum) weighted_sum;
  decltype(&ExactRows<Isa::kPortable>::scatter) scatter;
  decltype(&ExactRows<Isa::kPortable>::exponentials) exponentials;
  decltype(&EntmaxSolve<Isa::kPortable>::root) entmax_root;
  decltype(&EntmaxSolve<Isa::kPortable>::blend) entmax_blend;
  decltype(&EntmaxSolve<Isa::kPortable>::weights) entmax_weights;
  decltype(&EntmaxSolve<Isa::kPortable>::derivatives) entmax_derivatives;
};

// Returns the vector code of isa().
const ScreenOps& screen_ops();

// The work of screening, per row.
struct ScreenWork {
  int64_t width = 0;
  int64_t keys = 0;      // on average
  int64_t selected = 0;  // of these, an estimate
};
// Returns the format in which isa() and the processor do the work fastest: int8 with tiles, VNNI or sdot; on AVX2 pairs
// of bytes, or int16 if these let too many candidates through; otherwise float32.
ScreenFormat fastest_screen_format(const ScreenWork& work);
ScreenProduct screen_product(ScreenFormat format);
// The number of words of a vector of `width` numbers, with the zeros behind them that a product by whole tiles needs.
int64_t screen_steps(ScreenFormat format, int64_t width);

}  // namespace fovea::kernels
