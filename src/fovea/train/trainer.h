#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/base/log.h"
#include "fovea/train/report.h"
#include "fovea/train/roll_back.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/run_training.h"
#include "fovea/train/state.h"
#include "fovea/train/task.h"
#include "fovea/train/updater.h"

namespace fovea::train {

// In a checkpoint, of the tensors that the task carries.
inline constexpr const char* kCarried = "carried/";

// One run: the loop over updates, and what happens between them.
class Trainer {
 public:
  // After a roll-back, `back` is what the run() of the Trainer before it returned.
  explicit Trainer(const Run& run, const std::optional<RollBack>& back = std::nullopt);
  // Returns a roll-back if the run diverged; its folder is then ready for another Trainer.
  std::optional<RollBack> run();

 private:
  // Beginning.
  void log_start() const;
  void begin_team(const RunOptions& options);  // the others get the state that the run starts with
  void resume(const nn::Checkpoint& checkpoint, const RunOptions& options);
  // Logs what differs from the options of the run so far, and warns of a learning rate that jumps.
  void compare_options(const RunOptions& options, bool is_same_data) const;
  void warn_of_lost_best() const;
  void resume_validation();       // forgets the best values of other data
  std::string load_pretrained();  // says which checkpoint it was
  void start_epoch();             // loads the order of state_.epoch
  void go_on_after(const RollBack& back);

  // Makes one update; returns false if it was skipped.
  bool update();
  UpdateResult update_or_save(const UpdateInput& input);
  int64_t dropout_seed() const;  // of the place in the data
  // The learning rate of `update` at the run's place in the data, by these options.
  double learn_rate_of(const TrainConfig& config, int64_t update) const;
  void skip(const UpdateResult& result);
  void watch(const UpdateResult& result);
  // Sets back_, or throws an Error that names `update` if there are to be no more roll-backs.
  void diverge(int64_t update, const std::string& what);
  void display();
  // Says at the first display line if --stop-after-seconds will end the run well before --after-batches.
  void say_if_time_is_short() const;

  // The progress of the run by the limit that it is nearest to, and that limit: updates, epochs or seconds. Without a
  // limit, the number of updates and 0.
  struct Progress {
    double done = 0, limit = 0;
  };
  Progress progress() const;

  // The steps between updates.
  bool validates() const { return !valid_fingerprint_.empty(); }
  void show_progress(log::Progress& bar);
  bool validation_due() const;
  void validate_or_save();
  void validate();
  void recall_validation();  // the values that an earlier process found after the same update
  void save();
  void save_before_error();
  void link_best();
  void link(const char* name, const std::filesystem::path& checkpoint);  // unless it is so
  void work_after_update();

  // End.
  std::string reason_to_stop() const;  // empty: go on
  void finish(const std::string& reason);
  void leave_on_signal();

  struct Window {  // since the last display line
    double cost = 0, weight = 0, seconds = 0;
    Notes notes;
  };

  TrainConfig config_;
  Collective& team_;
  std::function<void(const UpdateReport&)> on_update_;
  at::Device device_;
  std::unique_ptr<Task> task_;
  std::string valid_fingerprint_;  // empty: no validation
  Updater updater_;
  std::optional<RunFolder> folder_;      // made after all that may be refused: --overwrite deletes
  std::optional<RunReport> run_report_;  // made when the run is sure to start in the folder
  TrainState state_;
  double first_share_ = 0;      // of the nearest limit, when this process began
  int64_t first_updates_ = 0;   // when this process began
  int64_t saved_ = -1;          // updates at the last save of this process, whose state is still the present one
  std::vector<int64_t> items_;  // of each batch of the epoch
  int64_t items_done_ = 0;      // of this epoch so far
  Window window_;
  std::optional<RollBack> back_;  // the run has diverged and goes back
  UpdateReport report_;
};

}  // namespace fovea::train
