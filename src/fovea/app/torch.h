#pragma once
#include <span>
#include <string>

#include "fovea/tasks/setup.h"

// Every command begins without libtorch, which takes a quarter of a second to load. The executable `fovea` holds the
// code that needs no libtorch: whole commands, the help of every command, and the refusal of wrong options. The library
// lib/libfovea_program.so holds the same and the rest.
namespace fovea::app {

// Thrown in the executable by a command that needs libtorch. The executable then loads the library, in which the
// command begins again.
struct NeedsTorch {};

// A command calls this before work that needs libtorch. Throws NeedsTorch in the executable; does nothing in the
// library. A command comes here twice, so before that it writes nothing, and reads nothing that can be read only once.
void require_torch();

// The one list of tasks (tasks/task_list.h); in the executable, their options alone.
std::span<const tasks::TaskEntry> task_list();

std::string build_info();  // "(libtorch 2.13.0, AVX512, no CUDA device)"

}  // namespace fovea::app
