#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "fovea/base/descriptor.h"

// Content that is not in its place yet, or no longer. It lies in a marked folder ".fovea-0123456789abcdef" beside the
// output. The mark, a file in it, says that Fovea made the folder and which process uses it. Nothing else tells a
// leftover from a user's files: a name never does.
namespace fovea {

// The folder of a path, "." for a plain name.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Like rename(2), but -1 and EEXIST if something is at `to`.
int rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

// A new marked folder, locked as long as this object lives. A process that is killed leaves its folder; the next call
// that writes beside it finishes or removes what is there: see replace.h.
class MarkedFolder {
 public:
  // Makes it in `folder`, in which `shown` is to be written. Throws "cannot write 'shown': ...".
  MarkedFolder(const std::filesystem::path& folder, const std::filesystem::path& shown);
  ~MarkedFolder();  // removes the folder, with all that is in it
  MarkedFolder(const MarkedFolder&) = delete;
  MarkedFolder& operator=(const MarkedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The path of a thing in it.
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  // Leaves the folder to the next call, because it holds content that could not be put back in place.
  void leave() { is_left_ = true; }

 private:
  std::filesystem::path path_;
  std::optional<Descriptor> mark_;
  bool is_left_ = false;
};

// A marked folder that a process has left. It is locked, so that no other process tidies it at the same time.
class LeftFolder {
 public:
  explicit LeftFolder(std::filesystem::path path, int mark);
  LeftFolder(LeftFolder&&) noexcept;
  ~LeftFolder();

  const std::filesystem::path& path() const { return path_; }
  void remove() const;  // with all that is in it

 private:
  std::filesystem::path path_;
  int mark_;
};

// The marked folders in `folder` whose processes have ended. `may_be_more` tells whether other folders have such a
// name.
struct LeftFolders {
  std::vector<LeftFolder> left;
  bool may_be_more = false;
};
LeftFolders left_folders_in(const std::filesystem::path& folder);

// Whether the folder has a mark.
bool is_marked(const std::filesystem::path& folder);

}  // namespace fovea
