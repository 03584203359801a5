#include "fovea/train/team.h"

#include <csignal>
#include <memory>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/team_threads.h"
#include "fovea/kernels/simd/isa.h"
#include "fovea/nn/device.h"

namespace fovea::train {
namespace {

std::span<std::byte> bytes_of(TeamOrder& order) { return std::as_writable_bytes(std::span(&order, 1)); }

// Options that each process may have of its own.
bool is_of_process(std::string_view name) {
  return name == "cpu-threads" || name == "model" || name == "quiet" || name.starts_with("log");
}

std::string process_name(Collective& team, const std::vector<std::string>& hosts, size_t rank) {
  return cat("process ", rank, " of ", team.size(), " on ", hosts.at(rank));
}

}  // namespace

void send(Collective& team, TeamOrder order) { team.broadcast(bytes_of(order)); }

TeamOrder receive(Collective& team) {
  TeamOrder order;
  team.broadcast(bytes_of(order));
  return order;
}

std::string team_text(const Task& task, const RunOptions& options) {
  std::string text = cat("training data: ", task.parts().fingerprint,
                         "\nprocessor's instructions: ", kernels::name(kernels::isa()), "\n");
  for (const auto* list : {&options.changed, &options.defaults}) {
    for (const auto& [name, value] : *list)
      if (!is_of_process(name)) text += cat("--", name, ": ", one_line(value), "\n");
  }
  return text + task.parts().identity.config;
}

void compare_team(Collective& team, const std::string& text) {
  const std::vector<std::string> texts = team.gather(text), hosts = team.gather(team.host());
  if (team.rank() > 0) return;
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::vector<std::string> first = split(texts[0], '\n'), other = split(texts[rank], '\n');
    size_t line = 0;
    while (line < first.size() && line < other.size() && first[line] == other[line]) ++line;
    const auto at = [&](const std::vector<std::string>& lines) {
      return line < lines.size() ? lines[line] : "nothing";
    };
    throw Error(cat(process_name(team, hosts, rank), " has '", at(other), "', but process 0 on ", hosts[0], " has '",
                    at(first), "'; give all processes the same data and options, and the same program"));
  }
}

TrainConfig config_of_team(Collective& team, TrainConfig config) {
  if (team.size() == 1) return config;
  config.cpu_threads = threads_in_team(team, config.cpu_threads);
  config.optimizer_delay *= team.size();
  return config;
}

void send_validation(Collective& team, const Task& task) {
  if (team.size() > 1 && task.shares_validation()) send(team, {TeamWork::kValidate, {}});
}

namespace {

// Process 0 alone looks at the values. A signal to it ends the validation in all.
void validate_in_team(Task& task, Updater& updater, const TrainConfig& config) {
  const AverageInUse average(updater);
  try {
    (void)task.validate(config.valid_metrics.empty() ? task.parts().default_measures : config.valid_metrics);
  } catch (const Interrupted&) {
    return;
  }
}

}  // namespace

void work_in_team(const Run& run, Collective& team) {
  // Process 0 gets these signals too, and says what to do.
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);
  const TrainConfig config = config_of_team(team, run.config);
  validate(config);
  nn::set_cpu_threads(config.cpu_threads);
  const std::unique_ptr<Task> task = run.load(config, config.optimizer_delay);
  task->set_team(team);
  Updater updater(config, task->module(), nn::parse_device(config.devices), task->parts().rules, team);
  int64_t epoch = 0;
  while (true) {
    const TeamOrder order = receive(team);
    if (order.work == TeamWork::kEnd) return;
    if (order.work == TeamWork::kCompare) compare_team(team, team_text(*task, run.options));
    if (order.work == TeamWork::kState) {
      updater.share_state();
      epoch = 0;
    }
    if (order.work == TeamWork::kValidate) validate_in_team(*task, updater, config);
    if (order.work != TeamWork::kUpdate) continue;
    if (order.input.epoch != epoch) (void)task->begin_epoch(epoch = order.input.epoch);
    task->after_update(updater.update(*task, order.input).made);
  }
}

}  // namespace fovea::train
