#include "fovea/base/replace.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "fovea/base/descriptor.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

constexpr const char* kList = "list";             // of the replacements, in the marked folder of the first
constexpr const char* kListPlace = "list-place";  // where the list is, in the other marked folders
constexpr std::string_view kBegin = "Fovea replaces these files together:\n";
constexpr std::string_view kBeginOfPlace = "Fovea's list of what it replaces together is:\n";
constexpr char kNameEnd = '\0';  // names may have any other character; an empty name ends the list

// An entry of a list: the target, and where the new and the old content lie.
struct Listed {
  fs::path target, written, old;
};

// The folder without links, so that two names of one folder are equal.
fs::path place_of_folder(const fs::path& folder) {
  std::error_code failed;
  fs::path place = fs::weakly_canonical(folder, failed);
  return failed ? folder : place;
}

fs::path place_of(const fs::path& path) { return place_of_folder(folder_of(path)) / path.filename(); }

bool is_there(const fs::path& path) {
  std::error_code none_there;
  return fs::exists(fs::symlink_status(path, none_there));
}

// The content of a regular file that begins so, without the beginning; a link is not followed.
std::optional<std::string> text_after(std::string_view begin, const fs::path& path) {
  constexpr uintmax_t kMostBytes = 1 << 20;
  std::error_code failed;
  if (fs::symlink_status(path, failed).type() != fs::file_type::regular) return std::nullopt;
  if (fs::file_size(path, failed) > kMostBytes || failed) return std::nullopt;
  std::string text = read_file(path);
  if (!text.starts_with(begin)) return std::nullopt;
  return text.substr(begin.size());
}

void write_new(const fs::path& path, std::string_view text) {
  const Descriptor file(open_at_last(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW), "write", path);
  write_all(file.get(), text, path);
  sync_file(file, path);
}

// Names are relative to the folder in which the marked folder lies, because all of it may be moved before the next
// call.
std::string list_of(const std::vector<Replacement>& all) {
  const fs::path home = place_of_folder(folder_of(all.front().target));
  std::string list(kBegin);
  for (const Replacement& one : all) {
    for (const fs::path& path : {place_of(one.target), place_of(one.written()), place_of(one.old())})
      list += path.lexically_relative(home).string() + kNameEnd;
  }
  return list + kNameEnd;
}

// Writes the list, synced, after the files that name it.
void write_list(const std::vector<Replacement>& all) {
  const fs::path list = *all.front().aside / kList, list_place = place_of(list);
  std::set<const MarkedFolder*> others;
  for (const Replacement& one : all)
    if (one.aside != all.front().aside) others.insert(one.aside);
  for (const MarkedFolder* other : others) {
    const fs::path home = place_of_folder(folder_of(other->path()));
    write_new(*other / kListPlace, cat(kBeginOfPlace, list_place.lexically_relative(home).string()));
    sync_path(other->path());
    sync_path(home);
  }
  write_new(list, list_of(all));
  sync_path(list.parent_path());
  sync_path(folder_of(list.parent_path()));
}

// Whether the parts of a list's entry lie where this program puts them: beside the target, in a marked folder.
bool is_well_placed(const Listed& one) {
  const fs::path aside = one.written.parent_path();
  return one.old.parent_path() == aside && aside.parent_path() == one.target.parent_path() && is_marked(aside);
}

// The entries of a marked folder's list; nothing if there is no whole list. A list is cut off if the process was killed
// before it replaced anything.
std::optional<std::vector<Listed>> listed_in(const fs::path& aside) {
  const std::optional<std::string> text = text_after(kBegin, aside / kList);
  if (!text) return std::nullopt;
  const fs::path home = place_of_folder(folder_of(aside));
  std::vector<fs::path> paths;
  for (size_t at = 0, end = 0; (end = text->find(kNameEnd, at)) != std::string::npos; at = end + 1) {
    if (end == at) {
      std::vector<Listed> listed;
      for (size_t i = 0; i + 2 < paths.size(); i += 3) listed.push_back({paths[i], paths[i + 1], paths[i + 2]});
      return listed;
    }
    paths.push_back((home / text->substr(at, end - at)).lexically_normal());
  }
  return std::nullopt;
}

// Puts what is left of new content in place if some of it is there already, else the old content back. Nothing is
// replaced: a file that is in place by now may be the user's.
void finish(const std::vector<Listed>& listed) {
  const bool has_begun = !std::ranges::all_of(listed, [](const Listed& one) { return is_there(one.written); });
  std::set<fs::path> folders;
  for (const Listed& one : listed) {
    const fs::path& from = has_begun ? one.written : one.old;
    if (is_there(from) && rename_to_new(from, one.target) != 0 && errno != EEXIST)
      fail_on_file("restore", one.target, errno);
    folders.insert(folder_of(one.target));
  }
  for (const fs::path& folder : folders) sync_path(folder);
}

// Whether a list elsewhere may still need this folder.
bool is_listed_elsewhere(const fs::path& aside) {
  const std::optional<std::string> place = text_after(kBeginOfPlace, aside / kListPlace);
  if (!place) return false;
  const fs::path list = (place_of_folder(folder_of(aside)) / *place).lexically_normal();
  return is_there(list) || !is_there(folder_of(folder_of(list)));
}

enum class Tidy : uint8_t { kFinish, kFinishAndRemove };

// Returns whether nothing is there that a later call might remove.
bool tidy(std::span<const fs::path> folders, Tidy what) {
  std::set<fs::path> places;
  for (const fs::path& folder : folders) places.insert(place_of_folder(folder));
  std::vector<LeftFolder> left, rest;
  bool may_be_more = false;
  for (const fs::path& place : places) {
    LeftFolders found = left_folders_in(place);
    std::ranges::move(found.left, std::back_inserter(left));
    may_be_more = may_be_more || found.may_be_more;
  }
  for (LeftFolder& aside : left) {
    const std::optional<std::vector<Listed>> listed = listed_in(aside.path());
    if (!listed) {
      rest.push_back(std::move(aside));
      continue;
    }
    const bool may_finish = std::ranges::all_of(
        *listed, [&](const Listed& one) { return places.contains(folder_of(one.target)) && is_well_placed(one); });
    may_be_more = may_be_more || !may_finish;
    if (!may_finish) continue;
    finish(*listed);
    (void)unlink((aside.path() / kList).c_str());
    aside.remove();
  }
  for (const LeftFolder& aside : rest) {
    const bool is_needed = what == Tidy::kFinish || is_listed_elsewhere(aside.path());
    may_be_more = may_be_more || is_needed;
    if (!is_needed) aside.remove();
  }
  return !may_be_more;
}

void move_old_aside(std::vector<Replacement>& all) {
  for (Replacement& one : all) {
    one.has_old = rename(one.target.c_str(), one.old().c_str()) == 0;
    if (!one.has_old && errno != ENOENT) fail_on_file("replace", one.shown, errno);
  }
}

void put_in_place(std::vector<Replacement>& all) {
  std::set<fs::path> folders;
  for (Replacement& one : all) {
    if (rename(one.written().c_str(), one.target.c_str()) != 0) fail_on_file("rename onto", one.shown, errno);
    one.is_in_place = true;
    folders.insert(folder_of(one.target));
  }
  for (const fs::path& folder : folders) sync_path(folder);
}

// New content first: no old content may stand beside it. If a rename fails, the old content stays aside.
void put_back(std::vector<Replacement>& all) {
  for (Replacement& one : all)
    if (one.is_in_place) one.is_in_place = rename(one.target.c_str(), one.written().c_str()) != 0;
  for (Replacement& one : all)
    if (one.has_old) one.has_old = rename_to_new(one.old(), one.target) != 0;
}

}  // namespace

fs::path Replacement::written() const { return *aside / cat("new", number); }
fs::path Replacement::old() const { return *aside / cat("old", number); }

void replace_together(std::vector<Replacement>& all) {
  if (all.empty()) return;
  const fs::path list = *all.front().aside / kList;
  try {
    write_list(all);
    move_old_aside(all);
    put_in_place(all);
  } catch (...) {
    put_back(all);
    const bool is_back = std::ranges::none_of(all, [](const Replacement& one) { return one.has_old; });
    if (is_back) {
      (void)unlink(list.c_str());
    } else {
      for (const Replacement& one : all) one.aside->leave();
    }
    throw;
  }
  (void)unlink(list.c_str());
}

void finish_killed_replacements(std::span<const fs::path> folders) { (void)tidy(folders, Tidy::kFinish); }

void remove_leftovers(std::span<const fs::path> folders) { (void)tidy(folders, Tidy::kFinishAndRemove); }

void remove_leftovers_once(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> tidied;
  {
    const std::scoped_lock lock(mutex);
    if (tidied.contains(folder)) return;
  }
  const bool is_tidy = tidy({&folder, 1}, Tidy::kFinishAndRemove);
  const std::scoped_lock lock(mutex);
  if (is_tidy) tidied.insert(folder);
}

}  // namespace fovea
