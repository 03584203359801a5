#include "fovea/nn/paths.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_on_path(std::string_view what, std::string_view doing, const fs::path& path,
                               const std::error_code& error) {
  throw Error(cat(what, ": cannot ", doing, " '", path.string(), "': ", error.message(),
                  "; check the path and its permissions"));
}

fs::file_type type_of_path(const fs::path& path, std::string_view what) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) fail_on_path(what, "read", path, error);
  return type;
}

}  // namespace

bool path_exists(const fs::path& path, std::string_view what) {
  return type_of_path(path, what) != fs::file_type::not_found;
}

bool is_folder(const fs::path& path, std::string_view what) {
  return type_of_path(path, what) == fs::file_type::directory;
}

std::vector<fs::path> entries_of(const fs::path& folder, std::string_view what) {
  std::vector<fs::path> entries;
  if (!is_folder(folder, what)) return entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  if (error) fail_on_path(what, "read", folder, error);
  std::sort(entries.begin(), entries.end());
  return entries;
}

fs::path resolved_path(const fs::path& path, std::string_view what) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path), error);
  if (error) fail_on_path(what, "read", path, error);
  return resolved.has_filename() ? resolved : resolved.parent_path();
}

void rename_path(const fs::path& from, const fs::path& to, std::string_view what) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_on_path(what, "rename", from, error);
}

void remove_path(const fs::path& path, std::string_view what) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_on_path(what, "remove", path, error);
}

fs::path move_aside(const fs::path& path, std::string_view what) {
  fs::path aside;
  int number = 1, failed = 0;
  do {
    aside = path;
    aside += cat(".", number++);
    failed = rename_to_new(path, aside);
  } while (failed != 0 && errno == EEXIST);
  if (failed != 0) fail_on_path(what, "rename", path, {errno, std::generic_category()});
  return aside;
}

}  // namespace fovea::nn
