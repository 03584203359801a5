#include "fovea/app/run_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "fovea/app/version.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/program_name.h"
#include "fovea/base/shell_word.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/config_version.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/key_lengths.h"
#include "fovea/spec/positions.h"
#include "fovea/spec/run_files.h"
#include "fovea/text/language_files.h"
#include "fovea/train/run_record.h"
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

// A command without data cannot train, but the train.yml of its run can.
void require_data(const fs::path& run, const std::vector<std::vector<std::string>>& inputs) {
  const fs::path options = run / kRunConfigFile;
  // A task may read no files at all.
  const bool has_no_data = !inputs.empty() && std::ranges::all_of(inputs, [](const auto& files) {
    return std::ranges::all_of(files, &std::string::empty);
  });
  std::error_code none_there;
  if (has_no_data && fs::is_regular_file(options, none_there))
    throw UsageError(cat("--model: '", run.string(), "' is a run, and the command names no data; to continue it: ",
                         program_name(), " train -c ", shell_word(options.string())));
}

// Sizes of vocabularies, which a training takes from the files.
bool follows_from_data(const FieldView& field) { return std::holds_alternative<std::vector<int64_t>*>(field.value); }

// A text that is equal for all spellings of a mechanism or of position schemes.
std::string one_spelling(const std::string& text) {
  try {
    return print(parse_layer_spec(text));
  } catch (const Error&) {
  }
  try {
    return print(parse_positions(text));
  } catch (const Error&) {
    return text;
  }
}

// Whether a run with the values `of_run` may have begun with `given`, which left the bias of a sigmoid to it.
bool may_have_begun_with(const std::vector<std::string>& of_run, const std::vector<std::string>& given) {
  return std::ranges::equal(of_run, given, [](const std::string& x, const std::string& y) {
    return x == y || one_spelling(x) == one_spelling(y) || completes(x, y);
  });
}

bool is_same_value(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::equal(
      a, b, [](const std::string& x, const std::string& y) { return x == y || one_spelling(x) == one_spelling(y); });
}

void take_value(const FieldView& field, const std::vector<std::string>& values) {
  if (auto* const* list = std::get_if<std::vector<std::string>*>(&field.value)) {
    **list = values;
  } else {
    assign(field, values);
  }
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
  file_ = path;
  const std::string named = std::exchange(config.model, folder.string());
  const auto where = [](const fs::path& place) { return nn::resolved_path(place, "--config"); };
  if (named.empty() || where(named) == where(folder)) return;
  if (where(fs::path(started_in(path)) / named) != where(folder)) folder_ = config.model, named_ = named;
  const fs::path inside =
      fs::path(config.log).lexically_normal().lexically_relative(fs::path(named).lexically_normal());
  if (!config.log.empty() && !inside.empty() && *inside.begin() != "..") config.log = folder / inside;
}

void RunOfConfig::say(const TrainConfig& config, const Options& options) const {
  if (!folder_.empty() && config.model == folder_)
    log::info(cat("[run] the run is the one in '", folder_, "', the folder of the file of --config, which names '",
                  named_, "'; --model would name another"));
  std::string limits;
  TrainConfig shown = config;
  for (const FieldView& field : field_views(shown)) {
    static constexpr std::array<std::string_view, 4> kLimits = {"after-batches", "after-epochs", "stop-after-seconds",
                                                                "early-stopping"};
    const bool is_limit = std::ranges::find(kLimits, field.name) != kLimits.end();
    if (is_limit && !file_.empty() && options.config_of(field.name) == file_)
      limits += cat(limits.empty() ? "" : ", ", "--", field.name, " ", values_of(field).front());
  }
  if (!limits.empty())
    log::info(cat("[run] '", file_, "' keeps the limits of the run so far: ", limits,
                  "; to train on, give a higher one, or 0 for none"));
}

void take_options_of_run(const TrainConfig& config, const std::vector<std::vector<std::string>>& inputs,
                         std::span<const FieldView> model, const std::function<bool(std::string_view)>& is_given) {
  if (config.model.empty() || config.overwrite || config.no_reload || !is_run(config.model)) return;
  require_data(config.model, inputs);
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
  const std::map<std::string, std::vector<std::string>> values = values_of_yaml(saved.config);
  std::vector<nn::IdentityDifference> differences;
  for (const FieldView& field : model) {
    const auto of_run = values.find(std::string(field.name));
    if (of_run == values.end() || follows_from_data(field)) continue;
    const std::vector<std::string> own = values_of(field);
    const bool is_same = is_same_value(of_run->second, own);
    if (!is_given(field.name) || (!is_same && may_have_begun_with(of_run->second, own))) {
      take_value(field, of_run->second);
    } else if (!is_same) {
      differences.push_back({Kind::kField, std::string(field.name), join(of_run->second, " "), join(own, " ")});
    }
  }
  if (!differences.empty()) train::refuse_options(differences, config.model);
}

void check_sides_of_run(const TrainConfig& config, std::span<const FieldView> task) {
  if (config.model.empty() || config.overwrite || config.no_reload || !is_run(config.model)) return;
  const std::vector<fs::path> checkpoints = nn::list_checkpoints(config.model);
  const auto field = std::ranges::find(task, std::string_view("train-sets"), &FieldView::name);
  if (checkpoints.empty() || field == task.end()) return;
  const std::optional<int64_t> last = nn::linked_updates(config.model, nn::kLastLink);
  const std::map<std::string, std::string> options =
      train::recorded_options(config.model, last.value_or(nn::updates_of_checkpoint(checkpoints.back())));
  const auto recorded = options.find(std::string(field->name));
  if (recorded == options.end()) return;
  const std::vector<std::string> before = split_words(recorded->second), now = values_of(*field);
  if (before.size() != 2 || now.size() != 2) return;
  const std::vector<std::string> learned = text::languages_of_files(before), wanted = text::languages_of_files(now);
  const bool are_known = !learned.empty() && !wanted.empty();
  if (are_known ? learned == wanted : !text::are_swapped_sides(before, now)) return;
  nn::IdentityDifference sides = {.name = std::string(field->name), .first = {}, .second = {}};
  sides.first = join(are_known ? learned : before, ", ");
  sides.second = join(are_known ? wanted : now, ", ");
  train::refuse_options(std::array{sides}, config.model);
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
