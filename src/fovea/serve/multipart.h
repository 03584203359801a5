#pragma once
#include <string_view>

#include "fovea/serve/html_form.h"

// Bodies of the type multipart/form-data, which forms with files and some libraries send.
namespace fovea::serve {

// The fields of a body in their order, a name perhaps several times. `type` is the value of the header Content-Type,
// which names the boundary. Throws an Error for a body of another form, a part that is a file, and bytes that are not
// UTF-8.
FormFields parse_multipart(std::string_view body, std::string_view type);

}  // namespace fovea::serve
