#include "fovea/train/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::train {
namespace {

using Json = nlohmann::ordered_json;

// Whether four digits after the point would show little of it.
bool is_small(double value) { return value != 0 && std::abs(value) < 0.01; }

std::string value_text(const Measure& measure, double value) { return fixed(value, measure.digits); }

}  // namespace

void log_display(const DisplayLine& line) {
  const double words_per_second = line.weight / std::max(line.seconds, 1e-9);
  std::string text =
      cat("Ep. ", line.last.epoch, " : Up. ", line.last.updates, " : Sen. ", thousands(line.items), " : Cost ",
          fixed(line.cost, 4), " : Time ", fixed(line.seconds, 2), "s : ", fixed(words_per_second, 2),
          " words/s : gNorm ", fixed(line.last.gradient_norm, 4), " : L.r. ", scientific(line.last.learn_rate, 4));
  Json json = {{"event", "train"},
               {"epoch", line.last.epoch},
               {"updates", line.last.updates},
               {"sentences", line.items},
               {"cost", line.cost},
               {"seconds", line.seconds},
               {"words_per_second", words_per_second},
               {"gradient_norm", line.last.gradient_norm},
               {"learn_rate", line.last.learn_rate}};
  for (const auto& [name, value] : line.notes) {
    text += cat(" : ", name, " ", is_small(value) ? scientific(value, 4) : fixed(value, 4));
    json["notes"][name] = value;
  }
  log::record(text, json.dump());
}

void log_valid(const ValidLine& line) {
  const bool improved = line.best.stalled == 0;
  std::string text = cat("[valid] Ep. ", line.epoch, " : Up. ", line.updates, " : ", line.measure.name, " : ",
                         value_text(line.measure, line.value), " : ");
  text += improved
              ? "new best"
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
}

void log_save(int64_t updates, const std::filesystem::path& path) {
  const Json json = {{"event", "save"}, {"updates", updates}, {"path", path.string()}};
  log::record(cat("[save] ", path.string()), json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void log_config(const std::vector<std::string>& texts) {
  for (const std::string& yaml : texts) {
    for (const std::string& line : split(trim(yaml), '\n')) {
      if (!line.empty()) log::info("[config] " + line);
    }
  }
}

}  // namespace fovea::train
