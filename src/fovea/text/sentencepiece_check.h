#pragma once
#include <string_view>

namespace fovea::text {

// Whether no text can lead the library out of the bounds of the character maps in a serialised model. The library
// itself follows their offsets unchecked, in a damaged model into memory that is not its own.
bool has_sound_charsmaps(std::string_view model);

// Whether no text can match more of the user's own pieces at one place than the library has room for; it reads on
// behind that room.
bool has_sound_user_pieces(std::string_view model);

}  // namespace fovea::text
