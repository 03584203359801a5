#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace fovea::bert {

struct BertScore {
  double precision = 0, recall = 0, f1 = 0;
};

// The row of a layer in the lines of a file of baselines, "LAYER,P,R,F" after a line of names. Throws an Error that
// names the file if it has none, and for values that are not means of cosines below 1.
BertScore parse_baseline(std::span<const std::string> lines, const std::string& path, int64_t layer);

}  // namespace fovea::bert
