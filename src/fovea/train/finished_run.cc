#include "fovea/train/finished_run.h"

#include <algorithm>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/spec/run_options.h"
#include "fovea/train/resumption.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/run_record.h"

namespace fovea::train {
namespace {

// Whether the option changes nothing in what a training makes.
bool is_of_machine_or_log(const std::string& name) {
  MachineOptions machine;
  LogOptions log;
  for (const std::vector<FieldView>& fields : {field_views(machine), field_views(log)}) {
    if (std::ranges::any_of(fields, [&](const FieldView& field) { return field.name == name; })) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> reason_of_finished_run(const Run& run) {
  if (run.options.text.empty() || !goes_on(run.config)) return std::nullopt;
  const std::optional<RecordedEnd> end = recorded_end(run.config.model);
  if (!end) return std::nullopt;
  std::vector<OptionChange> changes = changes_since(end->options, run.options);
  std::erase_if(changes, [](const OptionChange& change) { return is_of_machine_or_log(change.name); });
  if (!changes.empty()) return std::nullopt;
  const nn::Checkpoint last = nn::read_checkpoint(run.config.model, nn::Load::kAll);
  const bool is_of_end = nn::checkpoint_path(run.config.model, end->updates).filename() == last.folder.filename();
  return is_of_end ? std::optional(end->reason) : std::nullopt;
}

void say_finished(const std::string& reason, bool was_done) {
  log::info(cat("Training finished after ", reason, was_done ? "; there was nothing left to do" : ""));
}

}  // namespace fovea::train
