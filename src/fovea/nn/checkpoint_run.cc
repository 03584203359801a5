#include "fovea/nn/checkpoint_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/numbers.h"
#include "fovea/base/replace.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/former_best.h"
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

// Removes what killed processes left half written, and puts back what they did not replace.
void remove_leftovers_of(const fs::path& run) { remove_leftovers(std::vector<fs::path>{run, checkpoints_of(run)}); }

// The checksums of a checkpoint by name; nothing if they are damaged.
std::optional<std::map<std::string, std::string>> sums_of(const fs::path& checkpoint) {
  const fs::path sums = checkpoint / kChecksumFile;
  std::error_code none_there;
  if (!fs::is_regular_file(sums, none_there)) return std::nullopt;
  try {
    return parse_map(read_file(sums.string()), sums.string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

// An entry of a checkpoint's progress; "" where there is none, or it is damaged.
std::string progress_entry(const fs::path& folder, const char* name) {
  const fs::path progress = folder / kProgressFile;
  if (!path_exists(progress, kRunOption)) return "";
  try {
    return parse_map(read_file(progress.string()), progress.string())[name];
  } catch (const Error&) {
    return "";
  }
}

std::optional<int64_t> progress_number(const fs::path& folder, const char* name) {
  return number_in<int64_t>(progress_entry(folder, name));
}

// Whether --save-freq made the checkpoint, in the run as it then was.
bool is_regular(const fs::path& checkpoint) {
  const int64_t save_freq = progress_number(checkpoint, kSaveFreqEntry).value_or(0);
  return save_freq <= 0 || updates_of_checkpoint(checkpoint) % save_freq == 0;
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

std::optional<int64_t> linked_updates(const fs::path& run, const std::string& name) {
  std::error_code none_there;
  const fs::path target = fs::read_symlink(run / name, none_there).lexically_normal();
  const std::string linked = (target.has_filename() ? target : target.parent_path()).filename().string();
  if (is_checkpoint_name(linked) && fs::exists(run / name, none_there)) return updates_of_checkpoint(linked);
  return progress_number(run / name, "updates");
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

void prune_checkpoints(const fs::path& run, const Pruning& pruning) {
  std::set<int64_t> kept;
  for (const char* name : kCheckpointLinks) {
    if (const std::optional<int64_t> updates = linked_updates(run, name)) kept.insert(*updates);
  }
  for (const std::string& word : split_words(progress_entry(run / kLastLink, kFormerBestEntry)))
    if (const std::optional<int64_t> updates = number_in<int64_t>(word)) kept.insert(*updates);
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

std::string other_than_checkpoint(const fs::path& checkpoint) {
  const std::optional<std::map<std::string, std::string>> sums = sums_of(checkpoint);
  if (!sums) return "";
  for (const fs::path& path : entries_of(checkpoint, kRunOption)) {
    const std::string name = path.filename().string();
    if (name != kChecksumFile && !sums->contains(name)) return path.string();
  }
  return "";
}

void remove_checkpoint(const fs::path& path) {
  if (const std::string other = other_than_checkpoint(path); !other.empty()) {
    const std::optional<std::map<std::string, std::string>> sums = sums_of(path);
    remove_path(path / kChecksumFile, kRunOption);  // first: what is left does not look like a checkpoint
    for (const fs::path& file : entries_of(path, kRunOption))
      if (sums->contains(file.filename().string())) remove_path(file, kRunOption);
    log::warn(cat("the checkpoint in '", path.string(), "' is removed, but not '", other,
                  "', which is not a file of the checkpoint"));
    return;
  }
  // Moved first: a folder half removed must not look like a checkpoint.
  const MarkedFolder aside(folder_of(path), path);
  rename_path(path, aside / "old", kRunOption);
  remove_path(aside / "old", kRunOption);
}

void remove_checkpoints(const fs::path& run) {
  constexpr std::string_view kOption = "--overwrite";
  remove_leftovers_of(run);
  const std::vector<fs::path> found = list_checkpoints(run, kOption);
  for (const fs::path& path : entries_of(checkpoints_of(run), kOption)) {
    const bool is_own = std::ranges::find(found, path) != found.end();
    const std::string other = is_own ? other_than_checkpoint(path) : path.string();
    if (other.empty()) continue;
    throw Error(cat(kOption, ": '", other, "' is not ", is_own ? "a file of the checkpoint there" : "a checkpoint",
                    "; move it away or use another --model"));
  }
  for (const char* name : kCheckpointLinks) unlink_checkpoint(run, name);
  for (const fs::path& path : found) remove_checkpoint(path);
  std::error_code not_empty;
  fs::remove(checkpoints_of(run), not_empty);
}

void clean_checkpoints(const fs::path& run) {
  remove_leftovers_of(run);
  for (const fs::path& path : entries_of(checkpoints_of(run), kRunOption))
    if (is_checkpoint_name(path.filename().string())) move_aside_unless_checkpoint(path);
}

}  // namespace fovea::nn
