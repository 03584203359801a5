#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/base/log.h"
#include "fovea/train/report.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/setup.h"
#include "fovea/train/state.h"
#include "fovea/train/train.h"
#include "fovea/train/updater.h"
#include "fovea/train/validation.h"

namespace fovea::train {

// One run: the loop over updates, and what happens between them.
class Trainer {
 public:
  Trainer(const TrainConfig& config, const ModelConfig& model, const Hooks& hooks);
  void run();

 private:
  // Beginning.
  void log_start() const;
  void resume(const nn::Checkpoint& checkpoint);
  void resume_validation();  // forgets the best values of another text
  void load_pretrained();
  void start_epoch();  // loads the order of state_.epoch

  // One update; false if it was skipped.
  bool update();
  double next_learn_rate() const;
  void skip(const UpdateResult& result);
  void display();

  // Updates, seconds or epochs: what the run's limit counts, and the limit (0: none).
  double done() const;
  double limit() const;

  // Between updates.
  void show_progress(log::Progress& progress) const;
  bool validation_due() const;
  void validate_or_save();
  void validate();
  void save();
  void link_best();
  void link(const char* name, const std::filesystem::path& checkpoint);  // unless it is so
  void work_after_update();

  // End.
  std::string reason_to_stop() const;  // empty: go on
  void finish(const std::string& reason);
  void leave_on_signal();

  struct Window {  // since the last display line
    double cost = 0, seconds = 0;
    int64_t target_tokens = 0;
  };

  TrainConfig config_;
  const Hooks& hooks_;
  at::Device device_;
  TrainingData data_;
  nn::Checkpoint identity_;  // configuration and vocabularies of this run's checkpoints
  nn::Transformer model_;
  Updater updater_;
  Validation validation_;
  std::optional<RunFolder> folder_;  // made after all that may be refused: --overwrite deletes
  TrainState state_;
  double first_done_ = 0;  // done() when this process began
  int64_t saved_ = -1;     // updates at the last save of this process, whose state is still the present one
  std::vector<data::Batch> batches_;
  int64_t sentences_ = 0;  // of this epoch so far
  Window window_;
  UpdateReport report_;
};

}  // namespace fovea::train
