#pragma once
#include <filesystem>
#include <optional>

#include "fovea/nn/checkpoint.h"
#include "fovea/spec/train_config.h"

namespace fovea::train {

// The folder of a run, held by one process: a second training in it is refused.
class RunFolder {
 public:
  // Makes the folder, unless it is a checkpoint itself, refuses links in place of the run's own files, locks it,
  // removes what a killed process left half written and moves checkpoints cut off in copying aside. With --overwrite
  // the checkpoints and the run's other files there are deleted, with --no-reload they are moved aside (checkpoints.1
  // ...).
  explicit RunFolder(const TrainConfig& config);

  const std::filesystem::path& path() const { return path_; }
  // The newest whole checkpoint, or nothing in a new folder.
  std::optional<nn::Checkpoint> last() const;

 private:
  // An open file; a member, so that a constructor that throws later lets go of it too.
  struct Lock {
    int file = -1;
    explicit Lock(int locked) : file(locked) {}
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
  };

  std::filesystem::path path_;
  Lock lock_;
};

// Whether a run with this configuration resumes from a checkpoint in its folder.
bool goes_on(const TrainConfig& config);

// Throws the errors that RunFolder would throw for this folder, as far as they show without making it. A training calls
// it before it reads data, which may take minutes.
void check_run_folder(const std::filesystem::path& run);

}  // namespace fovea::train
