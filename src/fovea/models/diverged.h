#pragma once

namespace fovea::models {

// Throws the Error for a model whose scores are NaN or infinite.
[[noreturn]] void refuse_diverged();

}  // namespace fovea::models
