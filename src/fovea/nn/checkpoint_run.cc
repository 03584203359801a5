#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "update-";
constexpr int kDigits = 8;

fs::path folder_of(const fs::path& run) { return run / "checkpoints"; }

bool is_checkpoint_name(std::string_view name) {
  return name.starts_with(kPrefix) && name.size() >= kPrefix.size() + kDigits &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

int64_t updates_of(const fs::path& path) { return std::stoll(path.filename().string().substr(kPrefix.size())); }

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  if (!fs::is_directory(folder)) return entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

fs::path checkpoint_path(const fs::path& run, int64_t updates) {
  std::string number = std::to_string(updates);
  if (number.size() < kDigits) number.insert(0, kDigits - number.size(), '0');
  return folder_of(run) / cat(kPrefix, number);
}

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> found;
  for (const fs::path& path : entries_of(folder_of(run))) {
    if (is_checkpoint_name(path.filename().string()) && fs::exists(path / "checksums.yml")) found.push_back(path);
  }
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return updates_of(a) < updates_of(b); });
  return found;
}

void link_checkpoint(const fs::path& run, const std::string& name, const fs::path& checkpoint) {
  const fs::path link = run / name, aside = run / cat(name, ".tmp", getpid());
  std::error_code error;
  fs::remove(aside, error);
  fs::create_directory_symlink(fs::path("checkpoints") / checkpoint.filename(), aside, error);
  if (!error) fs::rename(aside, link, error);
  if (error) {
    std::error_code ignored;
    fs::remove(aside, ignored);
    throw Error(cat("cannot make the link '", link.string(), "': ", error.message()));
  }
  sync_path(run);
}

void prune_checkpoints(const fs::path& run, const Pruning& pruning) {
  std::set<fs::path> kept;
  for (const char* name : {"best", "last"}) {
    if (fs::exists(run / name)) kept.insert(fs::canonical(run / name).filename());
  }
  int64_t regular = 0;
  const std::vector<fs::path> found = list_checkpoints(run);
  for (auto path = found.rbegin(); path != found.rend(); ++path) {
    if (updates_of(*path) % pruning.every == 0 && regular++ < pruning.keep) continue;
    if (kept.contains(path->filename())) continue;
    // Renamed first: a folder half removed must not look like a checkpoint.
    const fs::path aside = path->string() + ".tmp" + std::to_string(getpid());
    fs::rename(*path, aside);
    fs::remove_all(aside);
  }
}

void remove_checkpoints(const fs::path& run) {
  for (const fs::path& path : entries_of(folder_of(run))) {
    const std::string name = path.filename().string();
    if (is_checkpoint_name(name.substr(0, name.find('.')))) continue;
    throw Error(cat("--overwrite: '", path.string(), "' is no checkpoint; move it away or use another --model"));
  }
  fs::remove_all(folder_of(run));
}

void clean_checkpoints(const fs::path& run) {
  for (const fs::path& path : entries_of(folder_of(run))) {
    const std::string name = path.filename().string();
    const size_t dot = name.find('.');
    if (dot == std::string::npos || !is_checkpoint_name(name.substr(0, dot))) continue;
    const fs::path whole = path.parent_path() / name.substr(0, dot);
    // Killed between the two renames of a replacement: the old one is still whole.
    if (name.substr(dot).starts_with(".old") && !fs::exists(whole)) {
      fs::rename(path, whole);
    } else if (name.substr(dot).starts_with(".old") || name.substr(dot).starts_with(".tmp")) {
      fs::remove_all(path);
    }
  }
  for (const fs::path& path : entries_of(run)) {
    const std::string name = path.filename().string();
    if (name.starts_with("last.tmp") || name.starts_with("best.tmp")) fs::remove(path);
  }
}

}  // namespace fovea::nn
