#include "fovea/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "fovea/base/descriptor.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/run_files.h"
#include "fovea/train/event_file.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kModelOption = "--model";
constexpr const char* kLockFile = ".lock";

void remove_links(const fs::path& run) {
  for (const char* name : nn::kCheckpointLinks) nn::unlink_checkpoint(run, name);
}

// The entries of a run's folder beside its checkpoints.
constexpr std::array kRunFiles = {kRunConfigFile, kRunRecordFile, kEventsFolder};

void move_run_aside(const fs::path& run) {
  remove_links(run);
  const fs::path aside = nn::move_aside(run / nn::kCheckpointsFolder, kModelOption);
  for (const char* name : kRunFiles) {
    if (nn::path_exists(run / name, kModelOption)) nn::move_aside(run / name, kModelOption);
  }
  log::info(cat("[run] --no-reload: the checkpoints of the earlier run are now in ", aside.string()));
}

void remove_run_files(const fs::path& run) {
  for (const fs::path& path : nn::entries_of(run / kEventsFolder, kModelOption)) {
    if (EventFile::is_own(path)) nn::remove_path(path, kModelOption);
  }
  for (const char* name : {kRunConfigFile, kRunRecordFile}) {
    if (nn::path_exists(run / name, kModelOption)) nn::remove_path(run / name, kModelOption);
  }
}

// The folder may come from someone else, and its links may lead to the user's files.
void require_own_files(const fs::path& run) {
  for (const char* name : {kLockFile, kRunConfigFile, kRunRecordFile})
    require_own_place(kModelOption, run / name, OwnPlace::kFile);
  for (const char* name : {nn::kCheckpointsFolder, kEventsFolder})
    require_own_place(kModelOption, run / name, OwnPlace::kFolder);
}

void require_place_of_run(const fs::path& run) {
  if (run.empty()) throw Error("--model: got none; expected the folder of the run");
  if (nn::is_checkpoint(run, kModelOption))
    throw Error(cat("--model: '", run.string(), "' is a checkpoint, not a run's folder; expected a new folder or a ",
                    "run's; to start from its weights use --pretrained-model"));
  require_own_files(run);
}

[[noreturn]] void refuse_second_training(const fs::path& run) {
  throw Error(cat("--model: another training is running in '", run.string(), "'; stop it or use another folder"));
}

// An open file that no other process has, or -1 where files cannot be locked. Makes the folder.
int lock(const fs::path& run) {
  require_place_of_run(run);
  std::error_code failed;
  fs::create_directories(run, failed);
  if (failed) throw Error(cat("--model: cannot make the folder '", run.string(), "': ", failed.message()));
  const std::string path = run / kLockFile;
  const int file = open_at_last(path, O_RDWR | O_CREAT | O_NOFOLLOW);
  if (file < 0) throw Error(cat("--model: cannot write in '", run.string(), "': ", std::strerror(errno)));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int error = errno;
  close(file);
  if (error == EWOULDBLOCK) refuse_second_training(run);
  log::warn(cat("cannot lock '", path, "': ", std::strerror(error), "; make sure that no other training runs there"));
  return -1;
}

void say_link_form(const fs::path& run) {
  const nn::LinkForm form = nn::link_form(run);
  if (form == nn::LinkForm::kLinks) return;
  log::info(
      cat("[run] the file system of '", run.string(), "' has no symbolic links: '", nn::kLastLink, "' and '",
          nn::kBestLink, "' are folders ",
          form == nn::LinkForm::kHardLinks
              ? "of hard links, which take no more disk"
              : "of copies, because it has no hard links either; they take the disk of up to two checkpoints more"));
}

}  // namespace

RunFolder::Lock::~Lock() {
  if (file >= 0) close(file);
}

void check_run_folder(const fs::path& run) {
  require_place_of_run(run);
  std::error_code none_there;
  fs::path there = fs::absolute(run, none_there);
  while (there.has_relative_path() && !fs::exists(there, none_there)) there = there.parent_path();
  if (!fs::is_directory(there, none_there))
    throw Error(cat("--model: cannot make the folder '", run.string(), "': '", there.string(), "' is not a folder"));
  for (const fs::path& folder : {there, run / nn::kCheckpointsFolder, run / kEventsFolder})
    if (access(folder.c_str(), W_OK | X_OK) != 0 && errno != ENOENT && errno != ENOTDIR)
      throw Error(cat("--model: cannot write in '", folder.string(), "': ", std::strerror(errno)));
  if (const fs::path record = run / kRunRecordFile; access(record.c_str(), W_OK) != 0 && errno != ENOENT)
    throw Error(cat("--model: cannot write '", record.string(), "': ", std::strerror(errno)));
  const int file = open((run / kLockFile).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return;
  const bool is_taken = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  if (is_taken) refuse_second_training(run);
}

RunFolder::RunFolder(const TrainConfig& config) : path_(config.model), lock_(lock(path_)) {
  if (config.overwrite) {
    nn::remove_checkpoints(path_);
    remove_run_files(path_);
  }
  nn::clean_checkpoints(path_);
  if (config.no_reload && nn::path_exists(path_ / nn::kCheckpointsFolder, kModelOption)) move_run_aside(path_);
  say_link_form(path_);
}

std::optional<nn::Checkpoint> RunFolder::last() const {
  if (nn::list_checkpoints(path_).empty()) return std::nullopt;
  return nn::load_checkpoint(path_, nn::Load::kAll);
}

bool goes_on(const TrainConfig& config) {
  return !config.overwrite && !config.no_reload && !nn::list_checkpoints(config.model).empty();
}

}  // namespace fovea::train
