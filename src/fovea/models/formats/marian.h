#pragma once
#include <map>
#include <string>
#include <vector>

#include "fovea/models/formats/foreign_model.h"

// Transformer models that Marian trained: model.npz, with the options of the training in "special:model.yml".
namespace fovea::models {

// Throws an Error that names the file and the tensor or the option that cannot be taken over.
ForeignModel read_marian(const ForeignFiles& files);

// The configuration that Marian's options describe. Throws an Error that begins with `origin` for an option with a
// value that changes the function of the model and that our models do not have. Public for tests.
EncoderDecoderConfig parse_marian_options(const std::map<std::string, std::vector<std::string>>& options,
                                          const std::string& origin);
// The layer, from 1, whose arrays each layer of the decoder has; empty: every one has its own. The options are ones
// that parse_marian_options() let pass.
std::vector<int64_t> marian_tied_layers(const std::map<std::string, std::vector<std::string>>& options,
                                        const std::string& origin);
// Whether the activation is what Marian calls gelu: x sigmoid(1.702 x). The configuration then has swish, which
// computes the same if the weights around it are scaled.
bool marian_has_scaled_swish(const std::map<std::string, std::vector<std::string>>& options);
// Whether attention has no output projection.
bool marian_omits_projections(const std::map<std::string, std::vector<std::string>>& options);

}  // namespace fovea::models
