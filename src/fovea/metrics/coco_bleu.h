#pragma once
#include <array>
#include <string>

#include "fovea/metrics/bleu.h"

namespace fovea::metrics {

// BLEU as COCO's evaluation of captions computes it (Chen et al. 2015): on text that is tokenised already, without
// smoothing, with the closest reference's length.
struct CocoBleuScore {
  std::array<double, kBleuOrder> bleu{};  // BLEU-1 ... BLEU-4, each from 0 to 100
  int64_t hypothesis_length = 0, reference_length = 0;
  std::string verbose() const;  // "75.2/58.1/44.0/33.4 (ratio = 0.984 hyp_len = 63 ref_len = 64)"
};

// `stats` are sums of Bleu::segment() with the tokenizer "none".
CocoBleuScore coco_bleu(const BleuStats& stats);

}  // namespace fovea::metrics
