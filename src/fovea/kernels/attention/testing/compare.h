#pragma once
#include <string>
#include <vector>

#include "fovea/kernels/attention/testing/cases.h"
#include "fovea/kernels/attention/testing/naive.h"

namespace fovea::kernels::testing_suite {

// One head of one sequence: what is right, what naive float makes of it, how far rounding reaches.
struct Truth {
  HeadValues right, naive, reach;
};

// Inputs on which rounding decides nothing, and their truths by sequence, then head; false after many draws without.
bool draw_clear(const Case& c, const Draw& draw, Inputs& inputs, std::vector<Truth>& truths);

// Describes the errors in the results, or returns an empty text.
std::string compare_all(const Case& c, const Results& got, const std::vector<Truth>& truths);

}  // namespace fovea::kernels::testing_suite
