#include "fovea/nn/checkpoint_run.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/paths.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "update-";
constexpr int kDigits = 8, kMaxDigits = 18;  // at least, and what an int64_t holds
constexpr std::string_view kRunOption = "--model";

fs::path checkpoints_of(const fs::path& run) { return run / kCheckpointsFolder; }

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_checkpoint_name(std::string_view name) {
  return name.starts_with(kPrefix) && name.size() >= kPrefix.size() + kDigits &&
         name.size() <= kPrefix.size() + kMaxDigits && is_number(name.substr(kPrefix.size()));
}

// Whether a name's ending is that of a temporary name. A user's own ending, such as `.old-good`, is not.
bool is_aside(std::string_view ending, std::string_view aside) {
  return ending.starts_with(aside) && is_number(ending.substr(aside.size()));
}

// Whether a name's ending is that of a folder which a finished checkpoint replaced, see base/aside.h.
bool is_replaced(std::string_view ending) {
  return ending.ends_with(kReplaced) && is_aside(ending.substr(0, ending.size() - kReplaced.size()), kNewAside);
}

// A number of a checkpoint's progress; nothing where there is none, or it is damaged.
std::optional<int64_t> progress_number(const fs::path& folder, const char* name) {
  const fs::path progress = folder / kProgressFile;
  if (!path_exists(progress, kRunOption)) return std::nullopt;
  try {
    const std::string text = parse_map(read_file(progress.string()), progress.string())[name];
    return number_in<int64_t>(text);
  } catch (const Error&) {
  }
  return std::nullopt;
}

// The updates of the checkpoint that run/name is a link to, or a copy of: some programs copy a run so.
std::optional<int64_t> linked_updates(const fs::path& run, const char* name) {
  std::error_code none_there;
  const fs::path target = fs::read_symlink(run / name, none_there).lexically_normal();
  const std::string linked = (target.has_filename() ? target : target.parent_path()).filename().string();
  if (is_checkpoint_name(linked) && fs::exists(run / name, none_there)) return updates_of_checkpoint(linked);
  return progress_number(run / name, "updates");
}

// Whether --save-freq made the checkpoint, in the run as it then was.
bool is_regular(const fs::path& checkpoint) {
  const int64_t save_freq = progress_number(checkpoint, kSaveFreqEntry).value_or(0);
  return save_freq <= 0 || updates_of_checkpoint(checkpoint) % save_freq == 0;
}

void move_aside_unless_link(const fs::path& path) {
  std::error_code none_there;
  const fs::file_type type = fs::symlink_status(path, none_there).type();
  if (type == fs::file_type::not_found || type == fs::file_type::symlink) return;
  const fs::path aside = move_aside(path, kRunOption);
  log::warn(cat("'", path.string(), "' was not a link to a checkpoint; it is now '", aside.string(), "'"));
}

// A run cannot resume from a folder that was cut off in copying, and saving does not replace it.
void move_aside_unless_checkpoint(const fs::path& path) {
  if (is_checkpoint(path, kRunOption)) return;
  const fs::path aside = move_aside(path, kRunOption);
  log::warn(cat("'", path.string(), "' was not a whole checkpoint: it has no ", kChecksumFile, "; it is now '",
                aside.string(), "'"));
}

}  // namespace

int64_t updates_of_checkpoint(const fs::path& path) {
  return number_in<int64_t>(path.filename().string().substr(kPrefix.size())).value_or(0);
}

bool is_checkpoint(const fs::path& folder, std::string_view option) {
  return path_exists(folder / kChecksumFile, option);
}

fs::path checkpoint_path(const fs::path& run, int64_t updates) {
  std::string number = std::to_string(updates);
  if (number.size() < kDigits) number.insert(0, kDigits - number.size(), '0');
  return checkpoints_of(run) / cat(kPrefix, number);
}

std::vector<fs::path> list_checkpoints(const fs::path& run, std::string_view option) {
  std::vector<fs::path> found;
  for (const fs::path& path : entries_of(checkpoints_of(run), option)) {
    if (is_checkpoint_name(path.filename().string()) && is_checkpoint(path, option)) found.push_back(path);
  }
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return updates_of_checkpoint(a) < updates_of_checkpoint(b); });
  return found;
}

std::vector<fs::path> checkpoints_to_resume(const fs::path& run) {
  std::vector<fs::path> found = list_checkpoints(run);
  if (const std::optional<int64_t> last = linked_updates(run, kLastLink))
    std::erase_if(found, [&](const fs::path& path) { return updates_of_checkpoint(path) > *last; });
  return found;
}

std::vector<fs::path> checkpoints_to_average(const fs::path& run, int64_t count, int64_t until) {
  std::vector<fs::path> found = checkpoints_to_resume(run);
  const fs::path newest = found.empty() ? fs::path() : found.back();
  if (until > 0) std::erase_if(found, [&](const fs::path& path) { return updates_of_checkpoint(path) > until; });
  std::vector<fs::path> regular = found;
  std::erase_if(regular, [&](const fs::path& path) { return path != newest && !is_regular(path); });
  return std::ssize(regular) < count ? found : regular;
}

void link_checkpoint(const fs::path& run, const std::string& name, const fs::path& checkpoint) {
  const fs::path link = run / name, aside = run / cat(name, kNewAside, getpid());
  move_aside_unless_link(link);
  std::error_code error;
  fs::remove(aside, error);
  fs::create_directory_symlink(fs::path(kCheckpointsFolder) / checkpoint.filename(), aside, error);
  if (!error) fs::rename(aside, link, error);
  if (error) {
    std::error_code ignored;
    fs::remove(aside, ignored);
    throw Error(cat("cannot make the link '", link.string(), "': ", error.message()));
  }
  sync_path(run);
}

void unlink_checkpoint(const fs::path& run, const std::string& name) {
  move_aside_unless_link(run / name);
  remove_path(run / name, kRunOption);
}

void prune_checkpoints(const fs::path& run, const Pruning& pruning) {
  std::set<int64_t> kept;
  for (const char* name : kCheckpointLinks) {
    if (const std::optional<int64_t> updates = linked_updates(run, name)) kept.insert(*updates);
  }
  int64_t regular = 0;
  const std::vector<fs::path> found = list_checkpoints(run);
  if (pruning.sound) {
    const auto is_sound = [&](const fs::path& path) { return updates_of_checkpoint(path) <= *pruning.sound; };
    const auto newest = std::find_if(found.rbegin(), found.rend(), is_sound);
    if (newest != found.rend()) kept.insert(updates_of_checkpoint(*newest));
  }
  for (auto path = found.rbegin(); path != found.rend(); ++path) {
    if (is_regular(*path) && regular++ < pruning.keep) continue;
    if (kept.contains(updates_of_checkpoint(*path))) continue;
    remove_checkpoint(*path);
  }
}

void remove_checkpoint(const fs::path& path) {
  // Renamed first: a folder half removed must not look like a checkpoint.
  const fs::path aside = cat(path.string(), kNewAside, getpid());
  rename_path(path, aside, kRunOption);
  remove_path(aside, kRunOption);
}

void remove_checkpoints(const fs::path& run) {
  for (const fs::path& path : entries_of(checkpoints_of(run), "--overwrite")) {
    const std::string name = path.filename().string(), stem = name.substr(0, name.find('.'));
    const std::string_view ending = std::string_view(name).substr(stem.size());
    const bool is_own = ending.empty() || is_aside(ending, kNewAside) || is_replaced(ending) || is_aside(ending, ".");
    if (is_checkpoint_name(stem) && is_own) continue;
    throw Error(cat("--overwrite: '", path.string(), "' is not a checkpoint; move it away or use another --model"));
  }
  remove_path(checkpoints_of(run), "--overwrite");
}

void clean_checkpoints(const fs::path& run) {
  for (const fs::path& path : entries_of(checkpoints_of(run), kRunOption)) {
    const std::string name = path.filename().string();
    const size_t dot = name.find('.');
    if (!is_checkpoint_name(name.substr(0, dot))) continue;
    if (dot == std::string::npos) {
      move_aside_unless_checkpoint(path);
      continue;
    }
    const fs::path whole = path.parent_path() / name.substr(0, dot);
    const std::string ending = name.substr(dot);
    const bool is_old = is_replaced(ending);
    // Killed between the two renames of a replacement: the old one is still whole.
    if (is_old && !path_exists(whole, kRunOption)) {
      rename_path(path, whole, kRunOption);
    } else if (is_old || is_aside(ending, kNewAside)) {
      remove_path(path, kRunOption);
    }
  }
  for (const fs::path& path : entries_of(run, kRunOption)) {
    const std::string name = path.filename().string();
    std::error_code none_there;
    const bool half_made =
        std::ranges::any_of(kCheckpointLinks, [&](const char* link) { return is_aside(name, cat(link, kNewAside)); });
    if (half_made && fs::is_symlink(path, none_there)) remove_path(path, kRunOption);
  }
}

}  // namespace fovea::nn
