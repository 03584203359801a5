#pragma once
#include <memory>

#include "fovea/metrics/metric.h"

// The metrics of captions, of text that is tokenised already. A segment's references may be fewer than those of others:
// an empty line is an absent reference. add() throws an Error if all references of a segment are absent.
namespace fovea::metrics {

std::unique_ptr<Metric> make_coco_bleu(const EvaluateOptions& options);
std::unique_ptr<Metric> make_cider(const EvaluateOptions& options);
std::unique_ptr<Metric> make_meteor(const EvaluateOptions& options);  // by the program --meteor-jar

}  // namespace fovea::metrics
