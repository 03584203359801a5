#pragma once
#include "fovea/models/formats/convert.h"

namespace fovea::language {

// `fovea convert` of a language model in Hugging Face's form (hugging_face.h). Throws an Error if that is not possible;
// nothing was written then.
void convert(const models::ConvertOptions& options);

}  // namespace fovea::language
