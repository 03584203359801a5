#pragma once
#include <memory>

#include "fovea/serve/engine.h"
#include "fovea/serve/serve_options.h"

namespace fovea::serve {

// Returns the engine of the trained model of the place, after it has made one sentence. Throws an Error if the model
// cannot be loaded, or does not make text. The engine has no limits of its own: the batcher counts rows and tokens.
std::unique_ptr<Engine> load_engine(const ModelPlace& place, const ServeOptions& options);

}  // namespace fovea::serve
