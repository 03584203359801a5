#include "fovea/train/resumption.h"

#include <algorithm>
#include <array>

#include "fovea/base/error.h"
#include "fovea/base/fields.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/run_files.h"
#include "fovea/train/run_record.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr std::array kOfTheFolder = {"model", "overwrite", "no-reload"};
constexpr std::array kOfTheSchedule = {"learn-rate",    "lr-decay",     "lr-warmup",
                                       "after-batches", "after-epochs", "stop-after-seconds"};

template <size_t N>
bool has_name(const std::array<const char*, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

OptionValues options_of_file(const fs::path& file) {
  OptionValues options;
  std::error_code none_there;
  if (!fs::is_regular_file(file, none_there)) return options;
  try {
    for (const auto& [name, values] : values_of_yaml(read_file(file))) options[name] = join(values, " ");
  } catch (const Error&) {
    return {};  // what someone edited need not be YAML
  }
  return options;
}

std::string shown(const std::string& value) { return value.empty() ? "none" : one_line(value); }

}  // namespace

OptionValues options_so_far(const fs::path& run, int64_t updates) {
  OptionValues options = recorded_options(run, updates);
  return options.empty() ? options_of_file(run / kRunConfigFile) : options;
}

std::vector<OptionChange> changes_since(const OptionValues& before, const RunOptions& now) {
  std::vector<OptionChange> changes;
  const auto compare = [&](const std::string& name, const std::string& value, bool is_default) {
    if (has_name(kOfTheFolder, name)) return;
    const auto found = before.find(name);
    // An option that is younger than the run had no value; its default changes nothing.
    if (found == before.end() ? is_default : found->second == as_recorded(value)) return;
    changes.push_back({name, found == before.end() ? "" : found->second, value});
  };
  for (const auto& [name, value] : now.changed) compare(name, value, false);
  for (const auto& [name, value] : now.defaults) compare(name, value, true);
  return changes;
}

std::string text_of(std::span<const OptionChange> changes) {
  std::string text;
  for (const OptionChange& change : changes)
    text += cat(text.empty() ? "" : ", ", change.name, ": ", shown(change.before), " -> ", shown(change.now));
  return text;
}

TrainConfig schedule_so_far(TrainConfig config, const OptionValues& before) {
  for (const FieldView& field : field_views(config)) {
    const auto found = before.find(std::string(field.name));
    if (found == before.end() || !has_name(kOfTheSchedule, field.name)) continue;
    try {
      set_value(field, {found->second});
    } catch (const Error&) {
      continue;  // edited, or of another version
    }
  }
  return config;
}

bool jumps(const RatesAtResume& rates, double highest) {
  constexpr double kFactor = 1.1, kShare = 1e-3;
  const double upper = std::max(rates.last, rates.planned), lower = std::min(rates.last, rates.planned);
  const double least = kShare * highest;
  return (rates.next > kFactor * upper && rates.next - upper > least) ||
         (rates.next * kFactor < lower && lower - rates.next > least);
}

}  // namespace fovea::train
