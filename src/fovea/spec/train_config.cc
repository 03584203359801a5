#include "fovea/spec/train_config.h"

#include <limits>
#include <set>

#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"

namespace fovea {
namespace {

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const ValidMetric& metric : kValidMetrics) names.emplace_back(metric.name);
  return names;
}

void check_metrics(const TrainConfig& config, Problems& problems) {
  problems.add_if(config.valid_metrics.empty(),
                  cat("--valid-metrics is empty; expected some of ", join(metric_names(), ", ")));
  std::set<std::string> seen;
  for (const std::string& metric : config.valid_metrics) {
    problems.add_thrown_by("valid-metrics", [&] { valid_metric(metric); });
    problems.add_if(!seen.insert(metric).second, cat("--valid-metrics has '", metric, "' twice; give it once"));
  }
}

void check_files(const TrainConfig& config, Problems& problems) {
  problems.add_if(config.model.empty(), "--model is missing; expected the folder of the run");
  problems.add_unless_two_sides("train-sets", config.train_sets);
  problems.add_unless_two_sides("vocabs", config.vocabs);
  if (!config.valid_sets.empty()) problems.add_unless_two_sides("valid-sets", config.valid_sets);
}

void check_optimizer(const TrainConfig& config, Problems& problems) {
  const std::vector<double>& p = config.optimizer_params;
  // The update is computed in float32: a smaller eps would be 0 there, and a weight without a gradient 0 / 0.
  constexpr double kLeastEps = std::numeric_limits<float>::min(), kMostEps = std::numeric_limits<float>::max();
  const bool good =
      p.size() == 3 && p[0] >= 0 && p[0] < 1 && p[1] >= 0 && p[1] < 1 && p[2] >= kLeastEps && p[2] <= kMostEps;
  problems.add_if(!good,
                  "--optimizer-params: expected beta1 and beta2 in [0, 1) and eps above 0 in float32 (1.2e-38 to "
                  "3.4e38), e.g. 0.9 0.98 1e-9");
  problems.add_if(config.learn_rate == 0, "--learn-rate is 0; nothing would be learned");
  const bool needs_end = config.lr_decay == "cosine" || config.lr_decay == "linear";
  problems.add_if(needs_end && config.after_batches == 0 && config.after_epochs == 0 && config.stop_after_seconds == 0,
                  cat("--lr-decay ", config.lr_decay,
                      " falls to the end of training; say where that is with --after-batches, --after-epochs or "
                      "--stop-after-seconds"));
}

}  // namespace

std::string_view valid_metrics_help() {
  static const std::string kHelp = cat("of ", join(metric_names(), ", "), "; the first decides");
  return kHelp;
}

const ValidMetric& valid_metric(std::string_view name) {
  for (const ValidMetric& metric : kValidMetrics)
    if (metric.name == name) return metric;
  const std::vector<std::string> names = metric_names();
  throw UsageError(cat("got '", name, "'; expected some of ", join(names, ", "), did_you_mean(name, names)));
}

void validate(const TrainConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  check_files(config, problems);
  check_optimizer(config, problems);
  check_metrics(config, problems);
  add_machine_problems(config, problems);
  problems.add_if(config.no_reload && config.overwrite,
                  "--no-reload keeps the files of an existing run and --overwrite deletes them; choose one");
  problems.throw_if_any();
}

}  // namespace fovea
