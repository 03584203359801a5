#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fovea/spec/train_config.h"
#include "fovea/train/run_training.h"

// The options of a process that resumes a run. The checkpoint does not hold them, because a run may resume with others,
// but the run's folder does.
namespace fovea::train {

using OptionValues = std::map<std::string, std::string>;  // by name; the values of a list are apart by blanks

// All options of the process that saved the run's checkpoint after `updates`: by the run's record, which nobody edits,
// or by train.yml if the record does not have them. Empty if neither does.
OptionValues options_so_far(const std::filesystem::path& run, int64_t updates);

struct OptionChange {
  std::string name, before, now;
};
// The options that differ, in the order of `now`. The folder of the run is not compared, nor what --overwrite and
// --no-reload say of it.
std::vector<OptionChange> changes_since(const OptionValues& before, const RunOptions& now);

// "learn-rate: 0.1 -> 0.2, valid-metrics: bleu -> none".
std::string text_of(std::span<const OptionChange> changes);

// `config` with the values of `before` for the options that decide about the learning rate.
TrainConfig schedule_so_far(TrainConfig config, const OptionValues& before);

// The learning rate where a run resumes: of the last update, and of the next under the options of the run so far and
// under the present ones.
struct RatesAtResume {
  double last = 0, planned = 0, next = 0;
};
// Whether the next rate is not one that the schedule so far explains: more than a tenth, and a thousandth of the
// highest rate, above or below both others.
bool jumps(const RatesAtResume& rates, double highest);

}  // namespace fovea::train
