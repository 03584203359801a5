#pragma once
#include <string>
#include <string_view>

namespace fovea {

// The program as a word of the commands that messages show: as the user called it if that is a path, such as ./fovea in
// a clone, else `fovea`, which the shell finds.
std::string program_name();
// The beginning of main() says how the program was called: argv[0].
void set_program_name(std::string_view called);

}  // namespace fovea
