#pragma once

// The whole program, which lib/libfovea_program.so holds; `fovea` itself (main.cc) loads that library and calls this.
// Returns the exit code.
extern "C" int fovea_program(int argc, char** argv);
