#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fovea/train/state.h"
#include "fovea/train/task.h"
#include "fovea/train/train.h"

// The lines of a training's log, in the shape that tools for Marian's logs read, and as JSON records.
namespace fovea::train {

struct DisplayLine {
  UpdateReport last;   // of the last update
  int64_t items = 0;   // of this epoch so far; the log calls them sentences whatever the task, as Marian's does
  double cost = 0;     // mean since the line before
  double seconds = 0;  // of training since the line before; validation and saving are not counted
  double weight = 0;   // of the losses since the line before, such as tokens: what words/s counts
  std::vector<std::pair<std::string, double>> notes;  // the task's own values, means since the line before
};
void log_display(const DisplayLine& line);

struct ValidLine {
  int64_t epoch = 0, updates = 0;
  Measure measure;
  double value = 0;
  BestValue best;  // after this value was entered; stalled 0: it is the new best
};
void log_valid(const ValidLine& line);

void log_save(int64_t updates, const std::filesystem::path& path);

// Every line of these YAML texts, as "[config] key: value".
void log_config(const std::vector<std::string>& texts);

}  // namespace fovea::train
