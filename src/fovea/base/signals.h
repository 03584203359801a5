#pragma once

namespace fovea {

// SIGINT and SIGTERM only set a flag; long work looks at it between steps and leaves cleanly. A second SIGINT ends
// the process at once, as the shell's user expects.
void install_signal_handlers();
// Which signal asked, 0 if none.
int interrupting_signal();
// Throws Interrupted("... stopped by SIGTERM") if one came.
void throw_if_interrupted(const char* what);
// For tests.
void clear_interrupt();

}  // namespace fovea
