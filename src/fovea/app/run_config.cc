#include "fovea/app/run_config.h"

#include <algorithm>
#include <filesystem>

#include "fovea/app/version.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_version.h"

namespace fovea::app {

std::string run_config(std::span<const FieldView> fields) {
  std::string head = "# The options of the run in this folder: fovea train -c FILE repeats it.\n";
  const std::string folder = std::filesystem::current_path().string();
  if (is_valid_utf8(folder)) head += cat("# Relative paths start at ", one_line(folder), "\n");
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

std::vector<std::pair<std::string, std::string>> changed_options(std::span<const FieldView> fields,
                                                                 std::span<const FieldView> defaults) {
  std::vector<std::pair<std::string, std::string>> changed;
  for (const FieldView& field : fields) {
    const std::vector<std::string> values = values_of(field);
    const auto same = std::ranges::find_if(defaults, [&](const FieldView& other) { return other.name == field.name; });
    if (same == defaults.end() || values_of(*same) != values) changed.emplace_back(field.name, join(values, " "));
  }
  return changed;
}

}  // namespace fovea::app
