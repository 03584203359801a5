#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/transformer.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/vocab.h"

namespace fovea::translation {

struct LoadedModel {
  nn::Transformer model;
  text::Vocab source, target;
};

// Threads set, model on its device in its precision, vocabularies checked against it. `option` is the flag that
// named the model.
LoadedModel load_model(const ModelOptions& options, std::string_view option = "--model");

}  // namespace fovea::translation
