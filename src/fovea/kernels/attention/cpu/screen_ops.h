#pragma once
#include "fovea/kernels/attention/cpu/entmax_solve.h"
#include "fovea/kernels/attention/cpu/screen.h"

namespace fovea::kernels {

// The vector code of one instruction set.
struct ScreenOps {
  decltype(&ScreenPack<void>::keys) pack_keys;
  decltype(&ScreenPack<void>::query) pack_query;
  ScreenProduct product_float;
  decltype(&ScreenScan<void>::append) append;
  decltype(&ScreenScan<void>::sample) sample;
  decltype(&ScreenScan<void>::moments) moments;
  decltype(&ScreenScan<void>::mark) mark;
  decltype(&ScreenScan<void>::prune) prune;
  decltype(&ScreenScan<void>::reached_by) reached_by;
  decltype(&ScreenScan<void>::kth_greatest) kth_greatest;
  decltype(&ScreenScan<void>::greatest) greatest;
  decltype(&ExactRows<void>::fetch) fetch;
  decltype(&ExactRows<void>::dots) dots;
  decltype(&ExactRows<void>::weighted_sum) weighted_sum;
  decltype(&ExactRows<void>::scatter) scatter;
  decltype(&ExactRows<void>::exponentials) exponentials;
  decltype(&EntmaxSolve<void>::root) entmax_root;
  decltype(&EntmaxSolve<void>::blend) entmax_blend;
  decltype(&EntmaxSolve<void>::weights) entmax_weights;
  decltype(&EntmaxSolve<void>::derivatives) entmax_derivatives;
};

// Of isa().
const ScreenOps& screen_ops();

// What isa() and the processor screen in: int8 with VNNI, else bf16 where there is its product, int16 on AVX2, else
// float32.
ScreenFormat fastest_screen_format();
ScreenProduct screen_product(ScreenFormat format);

}  // namespace fovea::kernels
