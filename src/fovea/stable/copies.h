#pragma once

namespace fovea::stable {

// Whether this copy of the library is the first in the process. Only the first one registers its operators, because the
// dispatcher ends a process in which an operator is defined twice; another copy says so in a line on standard error.
// Each STABLE_TORCH_LIBRARY block begins with this question.
bool is_first_copy();

}  // namespace fovea::stable
