#pragma once
#include <string_view>

namespace fovea::text {

// Whether no text can lead the library out of the bounds of the character maps in a serialised model. The library
// itself follows their offsets unchecked, in a damaged model into memory that is not its own.
bool has_sound_charsmaps(std::string_view model);

}  // namespace fovea::text
