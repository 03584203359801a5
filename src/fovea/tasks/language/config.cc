#include "fovea/tasks/language/config.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::language {

void validate(const LanguageConfig& config) {
  validate(static_cast<const DecoderConfig&>(config));  // first: has_learned_positions() needs positions that parse
  Problems problems;
  problems.add_ranges(config);
  problems.add_if(has_learned_positions(config) && config.segment_length > config.max_positions,
                  cat("--segment-length ", config.segment_length,
                      " needs as many learned positions; --max-positions is ", config.max_positions));
  problems.throw_if_any();
}

}  // namespace fovea::language
