#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/fields.h"

namespace fovea::app {

// The text of train.yml, which `fovea train -c` reads: the program's version and all of `fields`, without the options
// that say what to do with an existing run (--overwrite, --no-reload). Paths stay as they were given; a comment names
// the folder at which relative ones start. An option that is not UTF-8, as YAML is, is left out, with a comment.
std::string run_config(std::span<const FieldView> fields);

// Names and values of the fields whose values differ from those of the same name in `defaults`.
std::vector<std::pair<std::string, std::string>> changed_options(std::span<const FieldView> fields,
                                                                 std::span<const FieldView> defaults);

}  // namespace fovea::app
