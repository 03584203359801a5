#pragma once
#include <string>

// `fovea analyze` without a text: the adaptive spans of a model, which are the same for every text.
namespace fovea::app {

// Returns the span of each head in tokens, a line per layer, or as one JSON object of records with kind, layer, head
// and span: head 0 is the mean of the layer's heads. Layers and heads without a span are left out.
std::string spans_text(const std::string& model, bool as_json);

}  // namespace fovea::app
