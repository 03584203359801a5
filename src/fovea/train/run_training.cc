#include "fovea/train/run_training.h"

#include <csignal>
#include <memory>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/train/finished_run.h"
#include "fovea/train/report.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/team.h"
#include "fovea/train/trainer.h"

namespace fovea::train {
namespace {

// Makes the trainer. A signal meanwhile ends the run before there is anything to save.
std::unique_ptr<Trainer> trainer_of(const Run& run, const std::optional<RollBack>& back) {
  try {
    return std::make_unique<Trainer>(run, back);
  } catch (const Interrupted&) {
    throw Interrupted("Training interrupted (via signal) before it made an update; the same command begins again");
  }
}

// The only process, or the first of a team.
void train_in_folder(const Run& run) {
  log_options(run.options);
  check_run_folder(run.config.model);
  if (const std::optional<std::string> reason = reason_of_finished_run(run)) return say_finished(*reason, true);
  try {
    Run rest = run;
    std::optional<RollBack> back = trainer_of(run, std::nullopt)->run();
    while (back) {
      rest.config.overwrite = rest.config.no_reload = false;
      back = trainer_of(rest, back)->run();
    }
  } catch (const Interrupted& e) {
    // Ctrl-C ends with the shell's code in any case.
    if (interrupting_signal() == SIGINT) throw;
    log::stopped(e.what());
  }
}

// An error of one process ends all of them, and says whose it is.
void train_in_team(const Run& run) {
  Collective& team = run.team;
  try {
    if (team.rank() > 0) {
      work_in_team(run, team);
      return team.finish();
    }
    Run shared = run;
    shared.config = config_of_team(team, run.config);
    log::info(cat("[run] ", team.size(), " processes, ", shared.config.optimizer_delay, " batches an update"));
    train_in_folder(shared);
  } catch (const Interrupted&) {
    send(team, {});
    team.finish();
    throw;
  } catch (const Error& error) {
    throw Error(cat("process ", team.rank(), " of ", team.size(), " on ", team.host(), ": ", error.what()));
  }
  send(team, {});
  team.finish();
}

}  // namespace

void run_training(const Run& run) { run.team.size() > 1 ? train_in_team(run) : train_in_folder(run); }

}  // namespace fovea::train
