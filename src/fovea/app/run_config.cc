#include "fovea/app/run_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "fovea/app/version.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/shell_word.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/config_version.h"
#include "fovea/spec/run_files.h"
#include "fovea/train/same_model.h"

namespace fovea::app {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kStartedIn = "# Relative paths start at ";

// The folder in which the run of this train.yml was started, as its comment says; "" for another file.
std::string started_in(const std::string& path) {
  std::error_code none_there;
  if (!fs::is_regular_file(path, none_there)) return "";  // a pipe was read already
  for (const std::string& line : split(read_file(path), '\n')) {
    if (line.starts_with(kStartedIn)) return line.substr(kStartedIn.size());
    if (!line.starts_with('#')) break;
  }
  return "";
}

// Whether a training has begun in the folder.
bool is_run(const fs::path& folder) {
  std::error_code none_there;
  return std::ranges::any_of(std::array{nn::kCheckpointsFolder, kRunRecordFile},
                             [&](const char* name) { return fs::exists(folder / name, none_there); });
}

}  // namespace

std::string run_config(std::span<const FieldView> fields) {
  std::string head = "# The options of the run in this folder: fovea train -c FILE repeats it.\n";
  const std::string folder = std::filesystem::current_path().string();
  if (is_valid_utf8(folder)) head += cat(kStartedIn, one_line(folder), "\n");
  std::vector<FieldView> kept;
  for (const FieldView& field : fields) {
    if (field.name == "overwrite" || field.name == "no-reload") continue;
    if (std::ranges::all_of(values_of(field), [](const std::string& value) { return is_valid_utf8(value); })) {
      kept.push_back(field);
    } else {
      head += cat("# --", field.name, " is left out: it is not UTF-8, as YAML is\n");
    }
  }
  std::string version = kVersion;
  const std::vector<FieldView> origin = {{kVersionKey, "", -kNoLimit, kNoLimit, "", "", &version}};
  return cat(head, to_yaml(origin), to_yaml(kept));
}

train::RunOptions run_options(std::span<const FieldView> fields, std::span<const FieldView> defaults) {
  train::RunOptions options = {.text = run_config(fields)};
  for (const FieldView& field : fields) {
    const std::vector<std::string> values = values_of(field);
    const auto same = std::ranges::find_if(defaults, [&](const FieldView& other) { return other.name == field.name; });
    const bool is_default = same != defaults.end() && values_of(*same) == values;
    (is_default ? options.defaults : options.changed).emplace_back(field.name, join(values, " "));
  }
  return options;
}

void RunOfConfig::adopt(const std::string& path, TrainConfig& config) {
  const fs::path file = path;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (file.filename() != kRunConfigFile || !is_run(folder)) return;
  const std::string named = std::exchange(config.model, folder.string());
  const auto where = [](const fs::path& place) { return nn::resolved_path(place, "--config"); };
  if (named.empty() || where(named) == where(folder)) return;
  if (where(fs::path(started_in(path)) / named) != where(folder)) folder_ = config.model, named_ = named;
  const fs::path inside =
      fs::path(config.log).lexically_normal().lexically_relative(fs::path(named).lexically_normal());
  if (!config.log.empty() && !inside.empty() && *inside.begin() != "..") config.log = folder / inside;
}

void RunOfConfig::say(const TrainConfig& config) const {
  if (folder_.empty() || config.model != folder_) return;
  log::info(cat("[run] the run is the one in '", folder_, "', the folder of the file of --config, which names '",
                named_, "'; --model would name another"));
}

void check_existing_run(const TrainConfig& config, const std::vector<std::vector<std::string>>& inputs,
                        std::span<const FieldView> model, std::span<const FieldView> defaults) {
  if (config.model.empty() || config.overwrite || config.no_reload || !is_run(config.model)) return;
  const fs::path options = fs::path(config.model) / kRunConfigFile;
  // A task may read no files at all.
  const bool has_no_data = !inputs.empty() && std::ranges::all_of(inputs, [](const auto& files) {
    return std::ranges::all_of(files, &std::string::empty);
  });
  std::error_code none_there;
  if (has_no_data && fs::is_regular_file(options, none_there))
    throw UsageError(cat("--model: '", config.model,
                         "' is a run, and the command names no data; to continue it: fovea train -c ",
                         shell_word(options.string())));
  if (nn::list_checkpoints(config.model).empty()) return;
  nn::Identity saved;
  try {
    saved = nn::read_head(config.model).identity;
  } catch (const Error&) {
    return;  // the trainer can do with an older checkpoint than a damaged one
  }
  using Kind = nn::IdentityDifference::Kind;
  if (saved.task != config.task)
    train::refuse_other_model({Kind::kTask, "task", saved.task, config.task}, config.model);
  const nn::Identity wanted = {config.task, to_yaml(model), {}};
  for (const nn::IdentityDifference& difference : nn::field_differences(saved, wanted)) {
    const auto has_name = [&](const FieldView& field) { return field.name == difference.name; };
    const auto field = std::ranges::find_if(model, has_name), usual = std::ranges::find_if(defaults, has_name);
    // A field that is not given may follow from the data, and texts of free form have several spellings.
    if (field == model.end() || usual == defaults.end() || values_of(*field) == values_of(*usual)) continue;
    if (std::holds_alternative<int64_t*>(field->value) || !field->choices.empty())
      train::refuse_other_model(difference, config.model);
  }
}

void check_paths_of_config(const Options& options, std::span<const FieldView> fields,
                           const std::vector<std::vector<std::string>>& inputs) {
  const auto is_input = [&](const std::string& value) {
    return std::ranges::any_of(inputs,
                               [&](const auto& files) { return std::ranges::find(files, value) != files.end(); });
  };
  for (const FieldView& field : fields) {
    const std::optional<std::string> file = options.config_of(field.name);
    if (!file) continue;
    for (const std::string& value : values_of(field)) {
      std::error_code none_there;
      if (value.empty() || value == "-" || fs::path(value).is_absolute() || !is_input(value)) continue;
      if (fs::exists(value, none_there)) continue;
      const std::string folder = started_in(*file);
      throw Error(cat("--", field.name, ": '", value, "' of '", *file, "' does not exist; relative paths start at the ",
                      "current folder, '", fs::current_path().string(), "'",
                      folder.empty() ? "" : cat(", and the run was started in '", folder, "'"),
                      "; change to the folder of the data, or give --", field.name));
    }
  }
}

}  // namespace fovea::app
