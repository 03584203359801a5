#pragma once
#include <memory>

#include "fovea/serve/context.h"

namespace fovea::serve {

// POST /translate with the field text: Fovea's own dialect. libretranslate.cc calls it, which has the same path.
void translate_own(Context& context, const std::shared_ptr<Exchange>& exchange, const Fields& fields);

}  // namespace fovea::serve
