#pragma once
#include "fovea/base/log.h"

namespace fovea::app {

// --quiet, --log and --log-format of a configuration that has them.
template <class C>
void configure_log(const C& config) {
  log::configure({.format = config.log_format == "json" ? log::Format::kJson : log::Format::kText,
                  .quiet = config.quiet,
                  .file = config.log});
}

}  // namespace fovea::app
