#pragma once
#include "fovea/kernels/attention/testing/kernel_run.h"
#include "fovea/kernels/attention/testing/kernel_test_suite.h"

// Problems and inputs of the suite.
namespace fovea::kernels::testing_suite {

struct Case {
  int number = 0;
  AttentionProblem problem;
  Layout inputs = Layout::kPacked, outputs = Layout::kPacked;
  uint64_t seed = 0;
};

// Returns the cases that the suite's kernel accepts: every pattern x selection x transform x kind once, with sizes and
// layouts in turn, then random trees.
std::vector<Case> all_cases(const Suite& suite);

// Returns the accepted ones of a few cases of every sort over hundreds of keys.
std::vector<Case> long_cases(const Suite& suite);

// Every `every`-th case from the `first`-th on; of fewer cases than that, one.
std::vector<Case> every_nth(const std::vector<Case>& cases, size_t every, size_t first = 0);
// Returns the part of the cases that the suite asks for.
std::vector<Case> part_of(const Suite& suite, const std::vector<Case>& cases);

// The way in which numbers are drawn.
struct Draw {
  double q = 1, k = 1, v = 1;  // standard deviations
  bool coarse = false;         // few bits: scores exact in float, many of them equal
  uint64_t attempts = 100;     // of draw_clear()
};
Inputs draw_inputs(const Case& c, const Draw& draw, uint64_t seed);

}  // namespace fovea::kernels::testing_suite
