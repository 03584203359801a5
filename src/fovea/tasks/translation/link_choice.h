#pragma once
#include <cstdint>

namespace fovea::translation {

// The weights that make links, and how they do.
struct LinkChoice {
  int64_t layer = 0, head = 0;  // from 1; 0: the mean
  bool shifted = false;         // read target token t from the step whose input it is
  bool soft = false;            // weights of words from those of pieces first; else links of pieces first
};

}  // namespace fovea::translation
