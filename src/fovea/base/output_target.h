#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string_view>

namespace fovea {

// The target of output named `path`. Links are followed, so that the file that a link names is replaced, not the link.
struct OutputTarget {
  std::filesystem::path path;
  bool replaces = true;  // a regular file, or none yet: written aside, then renamed; else opened as it is
  int descriptor = -1;   // `path` is a name of that open descriptor, /dev/stdout or /dev/fd/5: >= 0, and not replaced
  std::optional<mode_t> mode = {};  // of the file there
};
// Throws for a folder.
OutputTarget output_target(const std::filesystem::path& path);

// Whether writing to both names would give one regular file, there or not yet.
bool is_same_file_to_write(const std::filesystem::path& a, const std::filesystem::path& b);

// Opens a target that is not replaced, or the new file `temporary` with the target's mode; -1 and errno on failure,
// such as if the file to replace is protected from writing. A signal that stops while it waits for a pipe's reader
// throws Interrupted.
int open_output(const OutputTarget& target, const std::filesystem::path& temporary);

}  // namespace fovea
