#include "fovea/base/aside_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/replace.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;

AsideFolder::AsideFolder(const fs::path& place) : place_(place) {
  const fs::path folder = folder_of(place);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(cat("cannot make the folder '", place.string(), "': ", error.message()));
  finish_killed_replacements({&folder, 1});
  aside_.emplace(folder, place);
  path_ = Replacement{.target = place, .shown = place, .aside = &*aside_}.written();
  fs::create_directory(path_, error);
  if (error) throw Error(cat("cannot make the folder '", place.string(), "': ", error.message()));
}

void AsideFolder::commit() {
  const fs::path folder = folder_of(place_);
  if (rename_to_new(path_, place_) != 0) {
    if (errno != EEXIST) fail_on_file("rename onto", place_, errno);
    if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) != 0) {
      // Some file systems cannot exchange names.
      std::vector<Replacement> one = {{.target = place_, .shown = place_, .aside = &*aside_}};
      replace_together(one);
    }
  }
  sync_path(folder);
  aside_.reset();
  remove_leftovers({&folder, 1});
}

}  // namespace fovea
