#pragma once
#include <vector>

#include "fovea/text/line_encoder.h"
#include "fovea/text/vocab.h"

namespace fovea::data {

// The encoders of both sides of a text, for each thread.
class PairEncoders {
 public:
  // The vocabularies must outlive this.
  PairEncoders(const text::Vocab& source, const text::Vocab& target, int threads)
      : pairs_(static_cast<size_t>(threads), {text::LineEncoder(source), text::LineEncoder(target)}) {}
  text::LineEncoder& source(int thread) { return pairs_[static_cast<size_t>(thread)].source; }
  text::LineEncoder& target(int thread) { return pairs_[static_cast<size_t>(thread)].target; }

 private:
  struct Pair {
    text::LineEncoder source, target;
  };
  std::vector<Pair> pairs_;
};

}  // namespace fovea::data
