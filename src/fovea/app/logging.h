#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/log.h"

namespace fovea::app {

// --quiet, --log and --log-format of a configuration that has them; `inputs` are the files that the command reads.
template <class C>
void configure_log(const C& config, std::initializer_list<std::vector<std::string>> inputs) {
  for (const std::vector<std::string>& files : inputs) require_other_file("--log", config.log, files);
  log::configure({.format = config.log_format == "json" ? log::Format::kJson : log::Format::kText,
                  .quiet = config.quiet,
                  .file = config.log});
}

}  // namespace fovea::app
