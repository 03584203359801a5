#pragma once
#include <string>
#include <vector>

namespace fovea::analysis {

// Attention weights of one sentence: a row a target token, a column a source token, each weight in [0, 1] or, for
// mechanisms that do not normalise, any number.
struct AttentionPicture {
  std::vector<std::string> sources, targets;  // labels, UTF-8
  std::vector<float> weights;                 // [targets, sources]
};

// The picture for a terminal: source tokens written downwards above their columns, a line per target token, and the
// greatest weight below. Cells go from '·' (exactly zero) over four shades, which are quarters of the picture's
// greatest weight in magnitude; '-' stands before the shade of a negative one.
std::string draw(const AttentionPicture& picture);

}  // namespace fovea::analysis
