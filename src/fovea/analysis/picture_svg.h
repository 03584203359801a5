#pragma once
#include <string>

#include "fovea/analysis/picture.h"

namespace fovea::analysis {

// The picture as an SVG file in the colours of the report's page: a cell per weight, target tokens at the left, source
// tokens above. An exact zero has a colour of its own. `title` and `caption` stand above the map.
std::string picture_svg(const AttentionPicture& picture, const std::string& title, const std::string& caption);

}  // namespace fovea::analysis
