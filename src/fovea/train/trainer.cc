#include "fovea/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <numeric>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/program_name.h"
#include "fovea/base/rng.h"
#include "fovea/base/shell_word.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/run_files.h"
#include "fovea/train/finished_run.h"
#include "fovea/train/measure.h"
#include "fovea/train/run_record.h"
#include "fovea/train/schedule.h"
#include "fovea/train/team.h"
#include "fovea/train/tensor_groups.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxSkips = 5;  // in a row

// "1 epoch", "20 epochs".
std::string counted(int64_t count, std::string_view what) {
  return cat(thousands(count), " ", what, count == 1 ? "" : "s");
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

double Trainer::learn_rate_of(const TrainConfig& config, int64_t update) const {
  RunShare share;
  const auto size = static_cast<double>(items_.size());
  if (config.after_epochs > 0)
    share.epochs = (static_cast<double>(state_.epoch - 1) + static_cast<double>(state_.batch) / size) /
                   static_cast<double>(config.after_epochs);
  if (config.stop_after_seconds > 0) share.seconds = state_.seconds / config.stop_after_seconds;
  return learning_rate(config, update, share) * rate_factor(state_.roll_backs);
}

int64_t Trainer::dropout_seed() const {
  const uint64_t place = hash_combine(static_cast<uint64_t>(state_.epoch), static_cast<uint64_t>(state_.batch));
  return static_cast<int64_t>(hash_combine(static_cast<uint64_t>(config_.seed), place) >> 1);
}

bool Trainer::update() {
  if (state_.batch == std::ssize(items_)) {
    ++state_.epoch;
    state_.batch = 0;
    start_epoch();
  }
  const Clock::time_point start = Clock::now();
  // The passes of an update are of one epoch; the last update of an epoch may have fewer.
  const int64_t passes = std::min(config_.optimizer_delay, std::ssize(items_) - state_.batch);
  const UpdateInput input = {.epoch = state_.epoch,
                             .first = state_.batch,
                             .passes = passes,
                             .update = state_.updates + 1,
                             .dropout_seed = dropout_seed(),
                             .learn_rate = learn_rate_of(config_, state_.updates + 1)};
  const UpdateResult result = update_or_save(input);
  task_->after_update(result.made);
  const auto first = items_.begin() + state_.batch;
  items_done_ = std::accumulate(first, first + passes, items_done_);
  state_.batch += passes;
  const double seconds = seconds_since(start);
  if (config_.stop_after_seconds > 0) state_.seconds += seconds;
  window_.seconds += seconds;
  run_report_->add_seconds(seconds);
  if (!result.made) {
    skip(result);
    return false;
  }
  state_.skipped_in_a_row = 0;
  ++state_.updates;
  state_.learn_rate = input.learn_rate;
  window_.cost += result.cost;
  window_.weight += result.weight;
  window_.notes.add(result.notes);
  report_ = {state_.epoch, state_.updates, result.cost / result.weight, result.gradient_norm, input.learn_rate};
  if (on_update_) on_update_(report_);
  watch(result);
  return true;
}

// An error in the data, such as a file that was cut, or a full memory must not cost the updates since the last
// checkpoint.
UpdateResult Trainer::update_or_save(const UpdateInput& input) {
  try {
    if (team_.size() > 1) send(team_, {TeamWork::kUpdate, input});
    return updater_.update(*task_, input);
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    save_before_error();
    throw;
  }
}

void Trainer::skip(const UpdateResult& result) {
  ++state_.skipped;
  const std::string what =
      cat("the loss (", result.cost, ") or its gradient (norm ", result.gradient_norm, ") is not finite");
  if (++state_.skipped_in_a_row < kMaxSkips) {
    log::warn(cat("update ", state_.updates + 1, " skipped: ", what, "; ", state_.skipped, " skipped so far"));
    return;
  }
  diverge(state_.updates + 1, cat(what, " ", kMaxSkips, " times in a row"));
}

void Trainer::watch(const UpdateResult& result) {
  if (config_.max_rollbacks == 0) return;
  state_.watch.add(result.cost, result.weight);
  if (state_.updates % config_.disp_freq != 0) return;
  const double value = state_.watch.cost / state_.watch.weight;
  state_.watch.end_window(state_.updates);
  if (!state_.watch.has_diverged()) return;
  diverge(state_.updates,
          cat("the mean cost was ", fixed(value, 4), " in the last of ", state_.watch.high, " windows of ",
              config_.disp_freq, " updates that were too high; before them it was ", fixed(state_.watch.mean, 4)));
}

void Trainer::diverge(int64_t update, const std::string& what) {
  if (state_.roll_backs < config_.max_rollbacks) {
    back_ = RollBack{what, state_};
    return;
  }
  throw Error(cat("training diverged at update ", update,
                  state_.roll_backs > 0 ? cat(" after ", state_.roll_backs, " roll-backs") : "", ": ", what,
                  "; lower --learn-rate, raise --lr-warmup or set --clip-norm, and resume from '",
                  (folder_->path() / nn::kLastLink).string(), "'"));
}

void Trainer::display() {
  run_report_->display({.last = report_,
                        .items = items_done_,
                        .cost = window_.cost / window_.weight,
                        .seconds = window_.seconds,
                        .weight = window_.weight,
                        .weight_unit = task_->parts().weight_unit,
                        .is_cost_per_byte = task_->parts().is_loss_per_byte,
                        .notes = window_.notes.means()});
  say_if_time_is_short();
  window_ = {};
}

void Trainer::say_if_time_is_short() const {
  const int64_t made = state_.updates - first_updates_, wanted = config_.after_batches;
  if (made > config_.disp_freq || wanted == 0 || config_.stop_after_seconds == 0) return;
  const double left = std::max(config_.stop_after_seconds - state_.seconds, 0.0);
  const double most = static_cast<double>(state_.updates) + left * static_cast<double>(made) / window_.seconds;
  constexpr double kSurely = 0.9;  // the first updates may be slower than the rest
  if (most >= kSurely * static_cast<double>(wanted)) return;
  log::info(cat("[run] at this speed, --stop-after-seconds ", shortest(config_.stop_after_seconds),
                " ends the training after about ", thousands(static_cast<int64_t>(most)), " of ", thousands(wanted),
                " updates; to make all of them, give a higher one, or 0 for no limit"));
}

Trainer::Progress Trainer::progress() const {
  const double updates = static_cast<double>(state_.updates);
  const double epochs =
      static_cast<double>(state_.epoch - 1) + static_cast<double>(state_.batch) / static_cast<double>(items_.size());
  Progress nearest{updates, 0};
  for (const Progress& limit : {Progress{updates, static_cast<double>(config_.after_batches)},
                                Progress{epochs, static_cast<double>(config_.after_epochs)},
                                Progress{state_.seconds, config_.stop_after_seconds}}) {
    const bool is_nearer = nearest.limit == 0 || limit.done * nearest.limit > nearest.done * limit.limit;
    if (limit.limit > 0 && is_nearer) nearest = limit;
  }
  return nearest;
}

// On a terminal a bar, between display lines; elsewhere a few lines before the first of those.
void Trainer::show_progress(log::Progress& bar) {
  if (isatty(STDERR_FILENO) == 0) return run_report_->early(report_, state_.updates - first_updates_);
  const Progress now = this->progress();
  bar.at(now.limit > 0 ? now.done / now.limit : now.done,
         cat("epoch ", state_.epoch, ", update ", thousands(state_.updates), ", cost ", fixed(report_.cost, 2)));
}

bool Trainer::validation_due() const {
  return validates() && state_.updates > 0 && state_.updates % config_.valid_freq == 0 &&
         state_.validated != state_.updates;
}

// An error in the validation, such as a memory that is full, must not cost the updates since the last checkpoint: they
// are saved as if a signal had come before it.
void Trainer::validate_or_save() {
  const std::map<std::string, BestValue> best = state_.best;
  try {
    validate();
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    state_.best = best;
    save_before_error();
    throw;
  }
  saved_ = -1;  // what a run that ended before the validation saved at this update is without it
}

// The error that ends the run matters more than a second one, of a disk that is full for instance.
void Trainer::save_before_error() {
  if (state_.updates == 0 || saved_ == state_.updates || !updater_.is_whole()) return;
  try {
    save();
  } catch (const std::exception& e) {
    log::warn(cat("the updates since the last checkpoint are lost: ", e.what()));
  }
}

void Trainer::validate() {
  std::vector<double> values;
  {
    const AverageInUse average(updater_);
    send_validation(team_, *task_);
    values = task_->validate(config_.valid_metrics);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Measure& measure = measure_of(task_->parts().measures, config_.valid_metrics[i]);
    BestValue& best = state_.best[config_.valid_metrics[i]];
    const bool is_repeated = best.value == values[i] && best.updates == state_.updates;
    if (is_better(measure, values[i], best.value)) {
      best = {values[i], state_.updates, 0};
    } else if (!is_repeated) {
      ++best.stalled;
    }
    run_report_->valid({state_.epoch, state_.updates, measure, values[i], best, is_repeated});
  }
  state_.validated = state_.updates;
}

void Trainer::recall_validation() {
  const std::map<std::string, double> values = recorded_values(folder_->path(), state_.updates, valid_fingerprint_);
  for (const std::string& name : config_.valid_metrics) {
    const auto found = values.find(name);
    BestValue& best = state_.best[name];
    if (found != values.end() && is_better(measure_of(task_->parts().measures, name), found->second, best.value))
      best = {found->second, state_.updates, 0};
  }
}

void Trainer::save() {
  nn::Checkpoint checkpoint;
  checkpoint.identity = task_->parts().identity;
  updater_.store(checkpoint);
  insert_group(checkpoint.optimizer, kCarried, task_->carried());
  checkpoint.progress = to_map(state_);
  checkpoint.progress[nn::kSaveFreqEntry] = std::to_string(config_.save_freq);
  const fs::path path = nn::checkpoint_path(folder_->path(), state_.updates);
  nn::save_checkpoint(path, checkpoint);
  nn::link_checkpoint(folder_->path(), nn::kLastLink, path);
  link_best();
  nn::Pruning pruning{.keep = config_.keep_last};
  if (config_.max_rollbacks > 0) pruning.sound = state_.watch.sound;
  nn::prune_checkpoints(folder_->path(), pruning);
  saved_ = state_.updates;
  run_report_->save(state_.updates, path);
}

void Trainer::link_best() {
  if (!validates()) return;
  const auto found = state_.best.find(config_.valid_metrics[0]);
  if (found == state_.best.end() || !found->second.value) return;
  const fs::path best = nn::checkpoint_path(folder_->path(), found->second.updates);
  if (nn::path_exists(best, "--model")) link(nn::kBestLink, best);
}

void Trainer::link(const char* name, const fs::path& checkpoint) {
  std::error_code none_there;
  if (!fs::equivalent(folder_->path() / name, checkpoint, none_there))
    nn::link_checkpoint(folder_->path(), name, checkpoint);
}

void Trainer::work_after_update() {
  bool keep = state_.updates % config_.save_freq == 0;
  if (validation_due()) {
    validate_or_save();
    const bool is_best = state_.best[config_.valid_metrics[0]].stalled == 0;
    if (is_best && config_.max_rollbacks > 0) state_.watch.found_best(state_.updates);
    keep = keep || is_best;
  }
  if (keep) save();
}

std::string Trainer::reason_to_stop() const {
  if (config_.after_batches > 0 && state_.updates >= config_.after_batches) return counted(state_.updates, "update");
  const bool epoch_done = state_.batch == std::ssize(items_);
  const int64_t epochs = epoch_done ? state_.epoch : state_.epoch - 1;
  if (config_.after_epochs > 0 && epochs >= config_.after_epochs) return counted(epochs, "epoch");
  if (config_.stop_after_seconds > 0 && state_.seconds >= config_.stop_after_seconds)
    return cat(fixed(state_.seconds, 0), " seconds of training");
  if (!validates() || config_.early_stopping == 0) return "";
  const auto found = state_.best.find(config_.valid_metrics[0]);
  if (found != state_.best.end() && found->second.stalled >= config_.early_stopping)
    return cat(counted(found->second.stalled, "validation"), " without a better ", config_.valid_metrics[0]);
  return "";
}

void Trainer::finish(const std::string& reason) {
  if (window_.weight > 0) display();
  if (saved_ != state_.updates) save();
  // Both again, as a last save may have been killed before them: every run ends with the same links and folders.
  link_best();
  nn::prune_checkpoints(folder_->path(), {.keep = config_.keep_last});
  // A validation out of turn is for the log and for `best`, not for the state: were it stored, a run that resumes here
  // would differ from one that never stopped. The state's own best one stays for such a run.
  const bool is_done_already = state_.updates == first_updates_;
  if (validates() && state_.validated != state_.updates) {
    if (is_done_already) recall_validation();
    validate();
    link_best();
  }
  run_report_->end(state_.updates, reason);
  say_finished(reason, is_done_already);
}

void Trainer::leave_on_signal() {
  if (saved_ != state_.updates) save();
  const fs::path options = folder_->path() / kRunConfigFile;
  const bool has_options = nn::path_exists(options, "--model");
  const std::string said =
      cat("Training interrupted (via signal) after ", counted(state_.updates, "update"), ", which are saved in '",
          folder_->path().string(), "'; the same command continues",
          has_options ? cat(", and so does: ", program_name(), " train -c ", shell_word(options.string())) : "");
  if (interrupting_signal() == SIGINT) throw Interrupted(said);
  log::stopped(said);
}

std::optional<RollBack> Trainer::run() {
  try {
    if (validation_due()) work_after_update();  // a signal or an error ended the run before it was done
    log::Progress bar("training", progress().limit > 0 ? 1 : 0, first_share_);
    std::string reason;
    while ((reason = reason_to_stop()).empty()) {
      throw_if_interrupted("training");
      const bool made = update();
      if (back_) break;
      if (!made) continue;
      if (state_.updates % config_.disp_freq == 0) display();
      show_progress(bar);
      work_after_update();
    }
    bar.finish();
    if (back_) {
      go_back_in_folder(folder_->path(), sound_checkpoint(folder_->path(), state_.watch));
    } else {
      finish(reason);
    }
  } catch (const Interrupted&) {
    leave_on_signal();
  }
  return back_;
}

}  // namespace fovea::train
