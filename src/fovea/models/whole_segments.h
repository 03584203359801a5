#pragma once
#include <string_view>

// Models whose decoder's routed heads choose the members of their clusters in the whole text. A full pass, as in
// training and scoring, then knows more than generation does. `Config` is a family's configuration.
namespace fovea::models {

// Warns that probabilities of a full pass are optimistic; once, however often it is called.
void warn_of_optimistic_scores();

// Warns if the model is such a one. Every function that computes probabilities of given texts calls this, and so does
// the beginning of a training.
template <class Config>
void warn_of_whole_segments(const Config& config) {
  if (routes_whole_segments(config)) warn_of_optimistic_scores();
}

// The mark of such a model in a signature of scores, with the separator before it; "" for any other model.
template <class Config>
std::string_view routing_in_signature(const Config& config) {
  return routes_whole_segments(config) ? "|routing:whole-segment" : "";
}

}  // namespace fovea::models
