#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The parts of a URL and of an HTML form's body.
namespace fovea::serve {

// The bytes that "%41" and the like stand for. Nothing if a percent sign has no two hexadecimal digits after it.
std::optional<std::string> percent_decoded(std::string_view text);

using FormFields = std::vector<std::pair<std::string, std::string>>;

// The fields of "q=Hello+world&source=en" in their order, a name perhaps several times. Throws an Error for bad percent
// signs and for bytes that are not UTF-8.
FormFields parse_form(std::string_view text);

}  // namespace fovea::serve
