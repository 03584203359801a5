#include "fovea/tasks/tagging/config.h"

#include "fovea/base/error.h"

namespace fovea::tagging {

void validate(const TaggingConfig& config) {
  validate(static_cast<const EncoderConfig&>(config));
  Problems problems;
  problems.add_ranges(config);
  problems.add_if(has_learned_positions(config) && config.max_positions < 3,
                  "--max-positions: expected at least 3, a piece of a word and the tokens around a sentence");
  problems.add_if(config.clause_tag_column == 1,
                  "--clause-tag-column: expected 0 or a number from 2; the first column is the word");
  problems.throw_if_any();
}

int64_t longest_sequence(const TaggingConfig& config) {
  return has_learned_positions(config) ? config.max_positions : 0;
}

}  // namespace fovea::tagging
