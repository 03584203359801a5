#include "fovea/nn/checkpoint_choice.h"

#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_reader.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/nn/paths.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

// The state of the training that a checkpoint holds; none if it holds a model alone, or a damaged state.
std::map<std::string, std::string> progress_of(const fs::path& checkpoint) {
  const fs::path file = checkpoint / kProgressFile;
  std::error_code none_there;
  if (!fs::is_regular_file(file, none_there)) return {};
  try {
    return parse_map(read_file(file), file.string());
  } catch (const Error&) {
    return {};
  }
}

template <class T>
std::optional<T> progress_value(const std::map<std::string, std::string>& progress, const std::string& name) {
  const auto found = progress.find(name);
  return found == progress.end() ? std::nullopt : number_in<T>(found->second);
}

// "best perplexity 12.5 after update 400, best bleu 30.1 after update 300".
std::string best_values(const std::map<std::string, std::string>& progress) {
  std::string text;
  for (const auto& [name, written] : progress) {
    if (!name.starts_with(kBestEntry)) continue;
    const std::string measure = name.substr(kBestEntry.size());
    const auto value = progress_value<double>(progress, name);
    const auto updates = progress_value<int64_t>(progress, cat(kBestUpdatesEntry, measure));
    if (value && updates) text += cat(", best ", measure, " ", *value, " after update ", *updates);
  }
  return text;
}

// "" if the link leads somewhere or is not there.
std::string lost_target(const fs::path& link) {
  std::error_code none_there;
  if (fs::exists(link, none_there) || !fs::is_symlink(link, none_there)) return "";
  return cat("'", link.string(), "' leads to '", fs::read_symlink(link, none_there).string(),
             "', which does not exist");
}

std::string missing_last(const fs::path& run) {
  return cat("'", run.string(), "' has several checkpoints and no link '", kLastLink, "'");
}

// Whether the line is new.
bool is_first_time(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::scoped_lock lock(mutex);
  return said.insert(line).second;
}

}  // namespace

ChosenCheckpoint choose_model(const fs::path& folder, std::string_view option) {
  if (is_checkpoint(folder, option)) return {folder};
  ChosenCheckpoint chosen;
  for (const char* name : kCheckpointLinks) {
    const fs::path link = folder / name;
    if (path_exists(link, option)) {
      chosen.folder = link;
      break;
    }
    if (chosen.problem.empty()) chosen.problem = lost_target(link);
  }
  if (chosen.folder.empty()) {
    const std::vector<fs::path> found = list_checkpoints(folder, option);
    if (found.empty())
      throw Error(cat(option, ": '", folder.string(), "' is neither a checkpoint nor a run that has one",
                      chosen.problem.empty() ? "" : cat("; ", chosen.problem)));
    chosen.folder = found.back();
    if (chosen.problem.empty() && found.size() > 1) chosen.problem = missing_last(folder);
  }
  // A copy without links, for one: its run was validated, so it had a best checkpoint.
  if (chosen.problem.empty() && chosen.folder.filename() != kBestLink &&
      !best_values(progress_of(chosen.folder)).empty())
    chosen.problem = cat("'", folder.string(), "' was validated, but has no link '", kBestLink, "'");
  return chosen;
}

std::string problem_of_last(const fs::path& run) {
  const fs::path link = run / kLastLink;
  if (std::string problem = lost_target(link); !problem.empty()) return problem;
  std::error_code none_there;
  return fs::exists(link, none_there) || list_checkpoints(run).size() < 2 ? "" : missing_last(run);
}

CheckpointHead read_head(const fs::path& folder, std::string_view option) {
  require_folder(folder, option);
  return read_followed(choose_model(folder, option).folder, [&](const fs::path& path) {
    return CheckpointHead{CheckpointReader(path, option).identity(), path};
  });
}

std::string task_of_checkpoint(const fs::path& folder, std::string_view option) {
  return read_head(folder, option).identity.task;
}

void require_folder(const fs::path& folder, std::string_view option) {
  if (!path_exists(folder, option)) {
    std::error_code none_there;
    const fs::path target = fs::read_symlink(folder.has_filename() ? folder : folder.parent_path(), none_there);
    throw Error(cat(option, ": no such folder: '", folder.string(), "'",
                    target.empty() ? "" : cat(", a link to '", target.string(), "', which does not exist")));
  }
  if (!is_folder(folder, option))
    throw Error(cat(option, ": '", folder.string(), "' is a file; a run's or a checkpoint's folder is expected"));
}

std::string description_of(const fs::path& folder, const fs::path& checkpoint) {
  const std::map<std::string, std::string> progress = progress_of(checkpoint);
  const auto updates = progress_value<int64_t>(progress, kUpdatesEntry);
  return cat(folder == checkpoint ? "" : cat(folder.string(), ": "), "checkpoint ", checkpoint.string(), ", ",
             updates ? cat(*updates, " updates") : "a model alone", best_values(progress));
}

void say_checkpoint(const fs::path& folder, const fs::path& checkpoint) {
  const std::string line = cat("[model] ", description_of(folder, checkpoint));
  if (!is_first_time(line)) return;
  log::debug(line);
  const std::optional<int64_t> best = linked_updates(folder, kBestLink), last = linked_updates(folder, kLastLink);
  if (!best || !last || *best == *last) return;
  if (progress_value<int64_t>(progress_of(checkpoint), kUpdatesEntry) != best) return;
  log::info(cat("[model] ", (folder / kBestLink).string(), ": update ", thousands(*best), "; ",
                (folder / kLastLink).string(), " is update ", thousands(*last)));
}

void warn_of_choice(const std::string& problem, const fs::path& taken) {
  if (problem.empty()) return;
  const std::string line = cat(problem, "; taking '", taken.string(), "' instead");
  if (is_first_time(line)) log::warn(line);
}

}  // namespace fovea::nn
