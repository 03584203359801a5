#pragma once
#include <cstdint>

namespace fovea::nn {

// Inputs of an encoder instead of tokens: vectors, such as the parts of an image.
struct VectorInput {
  int64_t width = 0;   // F, numbers of a vector; 0: the encoder reads tokens
  int64_t places = 0;  // vectors of an input, which get learned positions; 0: any number, without positions
};

}  // namespace fovea::nn
