#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/kernels/attention/attention.h"

// The tests that every attention kernel has to pass. kernel_list_test.cc runs them over attention_kernels() and all
// instruction sets: a new kernel needs no test of its own for what is here. Problems that the kernel refuses are left
// out. A failure prints the problem as one line; `only` repeats it.
namespace fovea::kernels::testing_suite {

struct Suite {
  const Kernel* kernel = nullptr;
  DType dtype = DType::kFloat32;
  int only = -1;             // number of the one case to run; negative: all
  int every = 1, first = 0;  // of what a check takes: each `every`-th from the `first`-th on, at least one
  int random_trees = 60;     // cases over random specs, beside the systematic ones
  // A value that is not finite may change all rows of its sequence by rounding: they are summed in another way.
  bool zero_weights_spoil = false;
};

// Every part returns the number of cases that ran.

// Forward and backward against the oracle for every pattern x selection x transform x kind, at sizes 0, 1, 2, 7, 33, 65
// (several sequences a call, decoding among them), head_dim 1, 3, 16, 64, 129, 256, strided and misaligned arrays with
// NaN between the rows, dropout. The error may be twice that of a naive float version, plus a bound on reordered sums.
// Outside the rows nothing may be written.
int check_against_oracle(const Suite& suite);
// check_against_oracle() over hundreds of keys, where kernels work in other ways: blocks, screens, several tiles.
int check_long(const Suite& suite);
// One thread and two, or three in every other case, and each sequence alone: the same bits, over hundreds of keys too.
int check_same_bits(const Suite& suite);
// Scores with few bits, exact in float: ties at the k-th score, at zero, whole rows equal; then the oracle exactly
// selects the same keys.
int check_ties(const Suite& suite);
// Norms of 1e-20 ... 1e4; scores whose exponentials under- and overflow.
int check_huge_and_tiny(const Suite& suite);
// entmax(learned) with alpha down to 1.0001, where it goes to softmax and naive float leaves no digits: errors of
// rounding only, alpha's gradient included.
int check_near_softmax(const Suite& suite);
// NaN and infinity in one row of q, k or v: rows that see it are not finite where the oracle's are not; all others,
// those among them that give a spoilt v no weight, have the bits of the clean run. (Over hundreds of keys they may
// differ from it by rounding: a spoilt row is summed again in another order, entmax's candidates are others, and a
// number below the normal range that it replaces may have kept a head from products in bfloat16.)
int check_not_finite(const Suite& suite);

}  // namespace fovea::kernels::testing_suite
