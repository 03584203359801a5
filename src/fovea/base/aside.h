#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "fovea/base/descriptor.h"

// Content beside its place: "OUT.tmp123" is written by process 123 for OUT, "OUT.old123" was moved out of the way by
// it. A process that is killed leaves such files and folders; the next one that writes OUT removes them when its own
// output is whole.
namespace fovea {

inline constexpr std::string_view kNewAside = ".tmp", kOldAside = ".old";

// The folder of a path, "." for a plain name.
std::filesystem::path folder_of(const std::filesystem::path& path);

// If names cannot be exchanged, a folder that a finished one replaces is called "OUT.tmp123.old" for a moment. Users do
// not give such a name to a copy.
inline constexpr std::string_view kReplaced = ".old";

// The name beside `path` for this process.
std::filesystem::path aside_of(const std::filesystem::path& path, std::string_view kind);

// The process of a name such as "OUT.tmp123", given "OUT.tmp"; nothing for a name of another form.
std::optional<pid_t> process_of_aside(std::string_view name, std::string_view stem);

// Makes the new, empty file `path` and returns its descriptor, locked for the time that it is open. A leftover of that
// name is replaced, and a link is not followed. -1 and errno on failure: EBUSY if another process writes it.
int create_aside(const std::filesystem::path& path);

// Whether the process that made `path` has ended: nobody holds its lock, and `process` does not live, or began after
// the last change of `path`.
bool is_abandoned(const std::filesystem::path& path, pid_t process);

// The leftovers of ended processes beside `path`: files of new and old content, and folders of new and replaced
// content. A folder "RUN.old3" may be a user's own copy.
std::vector<std::filesystem::path> leftovers_of(const std::filesystem::path& path);

// Removes them. A second call for the folder of `path` takes no time if the first found nothing in all of it.
void remove_leftovers(const std::filesystem::path& path);

// A folder that is written aside. It is locked, so that other processes see that it is in use, and goes with this
// object unless it was put in place.
class AsideFolder {
 public:
  // Makes the folder. First brings back the content that a killed call moved out of `place` and did not replace.
  explicit AsideFolder(const std::filesystem::path& place);
  ~AsideFolder();
  AsideFolder(const AsideFolder&) = delete;
  AsideFolder& operator=(const AsideFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Puts the folder in place of the old content, and removes leftovers.
  void commit();

 private:
  std::filesystem::path place_, path_;
  std::optional<Descriptor> lock_;
  bool is_in_place_ = false;
};

// Brings back a folder that a killed call moved out of `place` and did not replace.
void restore_folder(const std::filesystem::path& place);

// Puts a finished folder in place of `path`, in one step if the file system can exchange two names, and removes the old
// content.
void replace_folder(const std::filesystem::path& finished, const std::filesystem::path& path);

}  // namespace fovea
