#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fovea::data {

// Warns if PNG files of a folder among `paths` are named by numbers that do not rise in the order of load_images(), in
// which 10.png comes before 2.png. `results` are what follows this order, such as "captions"; `option` named the paths.
void warn_of_image_order(const std::vector<std::string>& paths, const std::string& option, std::string_view results);

}  // namespace fovea::data
