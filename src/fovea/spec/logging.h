#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/base/choices.h"
#include "fovea/base/collective.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/output_target.h"
#include "fovea/base/strings.h"
#include "fovea/spec/run_options.h"

namespace fovea {

// The stricter of --log-level and --quiet.
inline log::Level level_of(const LogOptions& options) {
  const auto level = parse_choice<log::Level>(log::kLevelNames, options.log_level, "--log-level: got");
  return options.quiet ? std::max(level, log::Level::kWarning) : level;
}

// --quiet, --log-level, --log and --log-format of a configuration that has them. Throws an Error if the log or --output
// would change one of `inputs`, the files that the command reads.
template <class C>
void configure_log(const C& config, const std::vector<std::vector<std::string>>& inputs) {
  for (const std::vector<std::string>& files : inputs) require_other_file("--log", config.log, files);
  if constexpr (requires { config.output; }) {
    for (const std::vector<std::string>& files : inputs) require_other_file("--output", config.output, files);
    std::error_code none_there;
    const bool is_file = config.output != "-" && !std::filesystem::is_directory(config.output, none_there);
    if (!config.log.empty() && is_file && is_same_file_to_write(config.log, config.output))
      throw Error(cat("--log: '", config.log, "' is --output too; name another file"));
  }
  // If there are several processes, the first one logs; the others tell of errors alone.
  const bool is_first = launched_rank() == 0;
  log::configure({.format = config.log_format == "json" ? log::Format::kJson : log::Format::kText,
                  .level = is_first ? level_of(config) : log::Level::kError,
                  .file = is_first ? config.log : ""});
}

}  // namespace fovea
