#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/simd/isa.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/device.h"
#include "fovea/nn/identity.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/run_files.h"
#include "fovea/train/measure.h"
#include "fovea/train/resumption.h"
#include "fovea/train/same_model.h"
#include "fovea/train/team.h"
#include "fovea/train/tensor_groups.h"
#include "fovea/train/trainer.h"

// The beginning or resuming of a run by a trainer.
namespace fovea::train {
namespace fs = std::filesystem;
namespace {

// The end of an error about weights that do not fit: the options of that model that differ. "" if nothing is known.
std::string options_to_make_equal(const nn::Identity& pretrained, const nn::Identity& wanted) {
  if (pretrained.task != wanted.task) return "";
  std::string text;
  for (const nn::IdentityDifference& field : nn::field_differences(pretrained, wanted)) {
    text += cat(text.empty() ? "" : ", ", "--", field.name, " '", field.first, "', not '", field.second, "'");
  }
  return text.empty() ? "" : cat("; that model has ", text);
}

// Logs the options of two models that differ although the weights fit, with both values. A warning names the options
// that decide what the weights mean. `folder` is the one of --pretrained-model.
void log_differing_options(const nn::Identity& pretrained, const nn::Identity& wanted, const std::string& folder) {
  std::vector<OptionChange> free, meaning;
  for (const nn::IdentityDifference& field : nn::field_differences(pretrained, wanted))
    (nn::decides_meaning_of_weights(field.name) ? meaning : free).push_back({field.name, field.first, field.second});
  if (!free.empty())
    log::info(cat("[run] options of the model that differ from those of '", folder, "': ", text_of(free)));
  if (meaning.empty()) return;
  log::warn(cat("--pretrained-model: the weights of '", folder,
                "' fit, but were trained with other options, so they "
                "compute something else here: ",
                text_of(meaning), "; give the options of that model unless you want this"));
}

const TrainConfig& checked(const TrainConfig& config) {
  validate(config);
  nn::set_cpu_threads(config.cpu_threads);
  return config;
}

// The measures by name, the task's own if none are given.
std::vector<std::string> measures_for(const Task& task, const std::vector<std::string>& given) {
  if (given.empty()) return task.parts().default_measures;
  Problems problems;
  check_measures(task.parts().measures, given, problems);
  problems.throw_if_any();
  return given;
}

}  // namespace

Trainer::Trainer(const Run& run, const std::optional<RollBack>& back)
    : config_(checked(run.config)),
      team_(run.team),
      on_update_(run.on_update),
      device_(nn::parse_device(config_.devices)),
      task_(run.load(config_, config_.optimizer_delay)),
      valid_fingerprint_(task_->parts().valid_fingerprint),
      updater_(config_, task_->module(), device_, task_->parts().rules, team_) {
  task_->set_team(team_);
  config_.valid_metrics = measures_for(*task_, config_.valid_metrics);
  state_.data = task_->parts().fingerprint;
  if (validates()) state_.valid_data = valid_fingerprint_;
  const bool pretrained = !config_.pretrained_model.empty() && !goes_on(config_);
  const std::string origin = pretrained ? load_pretrained() : "";
  folder_.emplace(config_);
  log_start();
  if (const std::optional<nn::Checkpoint> last = folder_->last()) {
    resume(*last, run.options);
  } else {
    log::info(cat("[run] a new run in '", folder_->path().string(), "'"));
    if (pretrained) log::info(cat("[run] starting from the weights of ", origin));
    start_epoch();
  }
  if (back) go_on_after(*back);
  if (team_.size() > 1) begin_team(run.options);
  if (!run.options.text.empty()) write_file(folder_->path() / kRunConfigFile, run.options.text);
  run_report_.emplace(folder_->path(), config_, run.options, state_);
  first_updates_ = state_.updates;
  const Progress now = progress();
  first_share_ = now.limit > 0 ? now.done / now.limit : now.done;
}

void Trainer::begin_team(const RunOptions& options) {
  if (!task_->carried().empty())
    throw Error(cat("--memory-length: states of earlier segments stay in one process; got ", team_.size(),
                    " processes; train this model in one, or without memory"));
  if (!device_.is_cpu())
    throw Error(cat("--devices ", config_.devices, ": several processes train on CPUs; use --devices cpu"));
  send(team_, {TeamWork::kCompare, {}});
  compare_team(team_, team_text(*task_, options));
  send(team_, {TeamWork::kState, {}});
  updater_.share_state();
}

void Trainer::log_start() const {
  log::info(cat("[model] ", thousands(updater_.parameter_count()), " parameters, ", config_.precision, " on ",
                device_.str(), ", ", at::get_num_threads(),
                at::get_num_threads() == 1 ? " CPU thread" : " CPU threads"));
  if (device_.is_cpu() && config_.precision == "bfloat16" && !kernels::has_fast_bf16()) {
    log::info(cat("[model] float32 is at least as fast as bfloat16 on this processor (", kernels::name(kernels::isa()),
                  "); bfloat16 only takes less memory"));
  }
}

void Trainer::resume(const nn::Checkpoint& checkpoint, const RunOptions& options) {
  check_same_model(checkpoint.identity, task_->parts().identity, folder_->path());
  const std::string origin = cat("resuming '", folder_->path().string(), "'");
  const std::string progress_file = (checkpoint.folder / nn::kProgressFile).string();
  state_ = from_map(checkpoint.progress, progress_file);
  if (nn::checkpoint_path(folder_->path(), state_.updates).filename() != checkpoint.folder.filename())
    throw Error(cat(progress_file, ": updates: got ", state_.updates, "; expected the number in the folder's name, ",
                    checkpoint.folder.filename().string()));
  updater_.restore(checkpoint, origin);
  saved_ = state_.updates;
  log::info(cat("[run] resuming after update ", state_.updates, " in epoch ", state_.epoch, " from '",
                checkpoint.folder.string(), "'",
                config_.pretrained_model.empty() ? "" : "; --pretrained-model was for the beginning of the run"));
  const std::string now = task_->parts().fingerprint;
  const bool is_same_data = state_.data == now;
  if (!is_same_data) {
    log::warn(cat("the training data, its batches or the seed differ from those of the run so far; epoch ",
                  state_.epoch, " starts again"));
    state_.data = now;
    state_.batch = 0;
  }
  resume_validation();
  start_epoch();
  if (is_same_data && state_.batch > 0) task_->restore(extract_group(checkpoint.optimizer, kCarried), origin);
  link(nn::kLastLink, checkpoint.folder);  // else it would keep naming a damaged one if no update is left to make
  link_best();
  warn_of_lost_best();
  compare_options(options, is_same_data);
}

void Trainer::compare_options(const RunOptions& options, bool is_same_data) const {
  const OptionValues before = options_so_far(folder_->path(), state_.updates);
  const std::vector<OptionChange> changes =
      before.empty() ? std::vector<OptionChange>() : changes_since(before, options);
  if (!changes.empty()) log::info(cat("[run] options that differ from those of the run so far: ", text_of(changes)));
  if (before.empty() && !options.text.empty())
    log::info(cat("[run] '", folder_->path().string(), "' does not say with which options its checkpoint was made"));
  if (state_.updates == 0 || !reason_to_stop().empty()) return;
  const int64_t update = state_.updates + 1;
  const TrainConfig earlier = schedule_so_far(config_, before);
  RatesAtResume rates = {.next = learn_rate_of(config_, update)};
  rates.last = state_.learn_rate.value_or(learn_rate_of(earlier, state_.updates));
  // Without the share of the epochs so far, or the options, a warm-up is all that is known to explain a change.
  const bool is_known = is_same_data && !before.empty();
  rates.planned = is_known ? learn_rate_of(earlier, update)
                           : rates.last * static_cast<double>(update) / static_cast<double>(state_.updates);
  if (!jumps(rates, std::max(config_.learn_rate, earlier.learn_rate))) return;
  if (!is_known && rates.next < rates.last) return;  // a schedule that falls explains it
  const bool falls_to_limit = config_.lr_decay == "cosine" || config_.lr_decay == "linear";
  log::warn(cat("the learning rate jumps from ", scientific(rates.last, 4), " at update ", state_.updates, " to ",
                scientific(rates.next, 4), " at update ", update,
                is_known ? cat(", where the options of the run so far give ", scientific(rates.planned, 4)) : "",
                falls_to_limit ? cat("; --lr-decay ", config_.lr_decay, " falls to 0 at the limit of the run, so ",
                                     "another limit changes the whole schedule")
                               : "",
                "; to train at the earlier rate, give --lr-decay none and --learn-rate"));
}

// Warns if the best checkpoint is missing: it was deleted by hand, or another first measure had chosen it.
void Trainer::warn_of_lost_best() const {
  if (!validates()) return;
  const auto found = state_.best.find(config_.valid_metrics[0]);
  if (found == state_.best.end() || !found->second.value) return;
  const fs::path best = nn::checkpoint_path(folder_->path(), found->second.updates);
  if (nn::path_exists(best, "--model")) return;
  log::warn(cat("the checkpoint of the best ", config_.valid_metrics[0], ", '", best.string(), "', does not exist; '",
                nn::kBestLink, "' does not name it until a better value comes"));
}

void Trainer::resume_validation() {
  if (!validates()) return;
  const std::string before = std::exchange(state_.valid_data, valid_fingerprint_);
  if (before.empty() || before == state_.valid_data) return;
  const std::optional<int64_t> best = nn::linked_updates(folder_->path(), nn::kBestLink);
  std::string kept;
  if (best) {
    kept = cat("; their checkpoint, '", nn::checkpoint_path(folder_->path(), *best).string(), "', is kept");
    if (std::ranges::find(state_.former_best, *best) == state_.former_best.end()) state_.former_best.push_back(*best);
  }
  log::warn(cat("the validation data, or the options of validation, differ from those of the run so far; the best ",
                "values are forgotten", kept));
  state_.best.clear();
}

std::string Trainer::load_pretrained() {
  const nn::Checkpoint checkpoint =
      nn::load_checkpoint(config_.pretrained_model, nn::Load::kModel, "--pretrained-model");
  const nn::NamedTensors weights = task_->weights_of(checkpoint);
  using Coverage = Updater::Coverage;
  const Coverage coverage = weights.size() == checkpoint.model.size() ? Coverage::kAll : Coverage::kPart;
  try {
    updater_.restore_weights(weights, cat("--pretrained-model '", config_.pretrained_model, "'"), coverage);
  } catch (const Error& error) {
    throw Error(cat(error.what(), options_to_make_equal(checkpoint.identity, task_->parts().identity)));
  }
  log_differing_options(checkpoint.identity, task_->parts().identity, config_.pretrained_model);
  return nn::description_of(config_.pretrained_model, checkpoint.folder);
}

void Trainer::go_on_after(const RollBack& back) {
  state_ = state_after(back, state_);
  start_epoch();
  saved_ = -1;
  log::info(cat("[run] rolled back to update ", thousands(state_.updates), " from ", thousands(back.state.updates),
                ": ", back.reason, "; continuing after batch ", thousands(state_.batch), " of epoch ", state_.epoch,
                " with ", shortest(rate_factor(state_.roll_backs)), " of the learning rate; roll-back ",
                state_.roll_backs, " of ", config_.max_rollbacks));
}

void Trainer::start_epoch() {
  items_ = task_->begin_epoch(state_.epoch);
  if (state_.batch > std::ssize(items_))
    throw Error(cat("resuming '", folder_->path().string(), "': ", nn::kProgressFile, ": batch: got ", state_.batch,
                    ", but epoch ", state_.epoch, " has ", thousands(std::ssize(items_)),
                    " batches; begin again with --overwrite or another --model"));
  items_done_ = std::accumulate(items_.begin(), items_.begin() + state_.batch, int64_t{0});
}

}  // namespace fovea::train
