#pragma once
#include "fovea/kernels/attention/testing/oracle.h"

// Attention in float by plain loops, to measure how far from the oracle an honest float implementation lands; and a
// first-order bound of what another order of the same operations can change.
namespace fovea::kernels::testing_suite {

struct HeadValues {
  std::vector<double> out, q, k, v;  // out and gradients of one head
  double alpha = 0;
  // Sums and gradients of the terms by offset.
  std::vector<double> sums = {}, by_head = {}, by_query = {}, queries = {}, rows = {};
};

// The cotangents of a head's outputs and, if it has them, of its sums.
struct HeadCotangents {
  std::vector<double> out, sums;
};

HeadValues naive_float(const OracleInput& input, const HeadCotangents& given);

// The sums behind each value with every term's magnitude, the score's own rounding included: times the unit roundoff,
// how far the value moves when each operation rounds once.
HeadValues magnitudes(const OracleInput& input, const OracleOutput& output, const HeadCotangents& given);

// Whether rounding may change what is selected or where a gradient jumps: scores near the k-th, near zero for relu,
// near the edge of the support for sparsemax. Exact ties are not doubtful.
bool is_doubtful(const OracleInput& input, const OracleOutput& output);

}  // namespace fovea::kernels::testing_suite
