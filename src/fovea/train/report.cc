#include "fovea/train/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/run_files.h"

namespace fovea::train {
namespace {

using Json = nlohmann::ordered_json;

// Whether four digits after the point would show little of it.
bool is_small(double value) { return value != 0 && std::abs(value) < 0.01; }

std::string value_text(const Measure& measure, double value) { return fixed(value, measure.digits); }

// One line, even if a path is not UTF-8.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void write_record(RunRecord& record, Json json, double elapsed) {
  json["elapsed"] = elapsed;
  record.write(line_of(json));
}

}  // namespace

void log_options(const RunOptions& options) {
  constexpr size_t kLineLength = 100;
  std::string line;
  for (const auto& [name, value] : options.changed) {
    const std::string next = cat(name, ": ", one_line(value));
    if (!line.empty() && line.size() + next.size() > kLineLength) {
      log::info("[config] " + line);
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + next;
  }
  if (!line.empty()) log::info("[config] " + line);
  for (const std::string& each : split(trim(options.text), '\n')) {
    if (!each.empty() && !each.starts_with('#')) log::debug("[config] " + each);
  }
}

RunReport::RunReport(const std::filesystem::path& folder, const TrainConfig& config, const RunOptions& options,
                     const TrainState& start)
    : display_freq_(config.disp_freq), record_(folder) {
  if (config.tensorboard) events_.emplace(folder / kEventsFolder, start.updates);
  Json changed = Json::object(), defaults = Json::object();
  for (const auto& [name, value] : options.changed) changed[name] = value;
  for (const auto& [name, value] : options.defaults) defaults[name] = value;
  write_record(record_,
               {{"event", "start"},
                {"updates", start.updates},
                {"options", changed},
                {"defaults", defaults},
                {"valid_data", start.valid_data}},
               elapsed_);
}

void RunReport::early(const UpdateReport& last, int64_t updates) {
  if (!first_lines_) return;
  const std::string_view more = first_lines_->is_first() ? "; a line of --disp-freq comes every " : "";
  if (!first_lines_->is_due(elapsed_)) return;
  log::info(cat("[run] update ", last.updates, " in epoch ", last.epoch, ": cost ", fixed(last.cost, 4), ", ",
                fixed(elapsed_ / static_cast<double>(updates), 2), " s per update", more,
                more.empty() ? "" : cat(thousands(display_freq_), " updates")));
}

void RunReport::display(const DisplayLine& line) {
  first_lines_.reset();
  const double words_per_second = line.weight / std::max(line.seconds, 1e-9);
  std::string text = cat("Ep. ", line.last.epoch, " : Up. ", line.last.updates, " : Sen. ", thousands(line.items),
                         " : Cost ", fixed(line.cost, 4), " : Time ", fixed(line.seconds, 2),
                         "s : ", fixed(words_per_second, 2), " ", line.weight_unit, "/s : gNorm ",
                         fixed(line.last.gradient_norm, 4), " : L.r. ", scientific(line.last.learn_rate, 4));
  Json json = {{"event", "train"},
               {"epoch", line.last.epoch},
               {"updates", line.last.updates},
               {"sentences", line.items},
               {"cost", line.cost},
               {"seconds", line.seconds},
               {"words_per_second", words_per_second},
               {"gradient_norm", line.last.gradient_norm},
               {"learn_rate", line.last.learn_rate}};
  if (line.is_cost_per_byte) {
    const double bits = line.cost / std::numbers::ln2;
    text += cat(" : ", fixed(bits, 4), " bits/byte");
    json["bits_per_byte"] = bits;
  }
  for (const auto& [name, value] : line.notes) {
    text += cat(" : ", name, " ", is_small(value) ? scientific(value, 4) : fixed(value, 4));
    json["notes"][name] = value;
  }
  log::record(text, json.dump());
  write_record(record_, json, elapsed_);
  if (!events_) return;
  EventFile::Scalars scalars = {{"train/loss", line.cost},
                                {"train/learn_rate", line.last.learn_rate},
                                {"train/words_per_second", words_per_second},
                                {"train/gradient_norm", line.last.gradient_norm}};
  for (const auto& [name, value] : line.notes) scalars.emplace_back(cat("train/", name), value);
  events_->write(line.last.updates, scalars);
}

void RunReport::valid(const ValidLine& line) {
  const bool is_best = line.best.stalled == 0, improved = is_best && !line.is_repeated;
  std::string text = cat("[valid] Ep. ", line.epoch, " : Up. ", line.updates, " : ", line.measure.name, " : ",
                         value_text(line.measure, line.value), " : ");
  text += is_best
              ? (improved ? "new best" : "the best, as before")
              : cat("stalled ", line.best.stalled,
                    " times (last best: ", line.best.value ? value_text(line.measure, *line.best.value) : "none", ")");
  const Json json = {{"event", "valid"},
                     {"epoch", line.epoch},
                     {"updates", line.updates},
                     {"metric", std::string(line.measure.name)},
                     {"value", line.value},
                     {"new_best", improved},
                     {"stalled", line.best.stalled}};
  log::record(text, json.dump());
  write_record(record_, json, elapsed_);
  if (events_) events_->write(line.updates, {{cat("valid/", line.measure.name), line.value}});
}

void RunReport::save(int64_t updates, const std::filesystem::path& path) {
  const Json json = {{"event", "save"}, {"updates", updates}, {"path", path.string()}};
  log::record(cat("[save] ", path.string()), line_of(json));
  write_record(record_, json, elapsed_);
}

void RunReport::end(int64_t updates, const std::string& reason) {
  write_record(record_, {{"event", "end"}, {"updates", updates}, {"reason", reason}}, elapsed_);
}

}  // namespace fovea::train
