#pragma once
#include "fovea/models/formats/convert.h"

namespace fovea::bert {

// Reads BERT's folder and writes a checkpoint, or the other way round. Throws an Error if that is not possible.
void convert(const models::ConvertOptions& options);

}  // namespace fovea::bert
