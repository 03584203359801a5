#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/spec/train_config.h"
#include "fovea/train/event_file.h"
#include "fovea/train/first_lines.h"
#include "fovea/train/run_record.h"
#include "fovea/train/run_training.h"
#include "fovea/train/state.h"
#include "fovea/train/task.h"

// The reports of a training: the lines of its log, in the shape that tools for Marian's logs read, or as JSON; and the
// same in the files that it leaves in the run's folder.
namespace fovea::train {

struct DisplayLine {
  UpdateReport last;   // of the last update
  int64_t items = 0;   // of this epoch so far; the log calls them sentences whatever the task, as Marian's does
  double cost = 0;     // mean since the line before
  double seconds = 0;  // of training since the line before; validation and saving are not counted
  double weight = 0;   // of the losses since the line before, such as tokens
  std::string weight_unit = "words";                  // what it counts
  bool is_cost_per_byte = false;                      // the line has bits per byte too
  std::vector<std::pair<std::string, double>> notes;  // the task's own values, means since the line before
};

struct ValidLine {
  int64_t epoch = 0, updates = 0;
  Measure measure;
  double value = 0;
  BestValue best;            // after this value was entered; stalled 0: it is the best
  bool is_repeated = false;  // the best is this very value, found by an earlier process at the same update
};

// The options that are not the defaults, in lines "[config] name: value, name: value"; all of them at the level debug.
void log_options(const RunOptions& options);

class RunReport {
 public:
  // Opens the files in `folder`, once the run is sure to start there. `start` is the state that it starts with.
  RunReport(const std::filesystem::path& folder, const TrainConfig& config, const RunOptions& options,
            const TrainState& start);

  // Adds seconds of training since the process began; the files have them with each of the following.
  void add_seconds(double seconds) { elapsed_ += seconds; }
  // Shows in the log alone how far the run is, if its first display line is still to come and a line is due. `updates`
  // are those of this process.
  void early(const UpdateReport& last, int64_t updates);
  void display(const DisplayLine& line);
  void valid(const ValidLine& line);
  void save(int64_t updates, const std::filesystem::path& path);
  // The end of a run that is done after `updates`; `reason` says why.
  void end(int64_t updates, const std::string& reason);

 private:
  double elapsed_ = 0;
  int64_t display_freq_;
  std::optional<FirstLines> first_lines_ = FirstLines();  // until the first display line
  RunRecord record_;
  std::optional<EventFile> events_;  // with --tensorboard
};

}  // namespace fovea::train
