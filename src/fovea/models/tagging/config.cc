#include "fovea/models/tagging/config.h"

#include "fovea/base/choices.h"
#include "fovea/base/strings.h"

namespace fovea::tagging {

void validate(const TaggingConfig& config) {
  fovea::validate(config);
  Problems problems;
  problems.add_if(has_learned_positions(config) && config.max_positions < 3,
                  "--max-positions: expected at least 3, a piece of a word and the tokens around a sentence");
  problems.add_if(config.clause_tag_column == 1,
                  "--clause-tag-column: expected 0 or a number from 2; the first column is the word");
  problems.add_if(config.label_dialect == "words" && config.label_form != "auto",
                  "--label-form: with --label-dialect words labels mark no chunks; leave one of the two out");
  problems.throw_if_any();
  if (config.label_form != "auto") metrics::parse_label_form(config.label_form, "--label-form");
}

metrics::LabelNotation notation_of(const TaggingConfig& config, const std::string& origin) {
  using metrics::LabelDialect;
  const auto dialect =
      parse_choice<LabelDialect>(metrics::kLabelDialectNames, config.label_dialect, cat(origin, "label-dialect: got"));
  if (dialect == LabelDialect::kWords) return {dialect, metrics::kWordsAlone};
  if (config.label_form == "auto") return {dialect, metrics::kFirstForm};
  return {dialect, metrics::parse_label_form(config.label_form, cat(origin, "label-form"))};
}

int64_t longest_sequence(const TaggingConfig& config) {
  return has_learned_positions(config) ? config.max_positions : 0;
}

}  // namespace fovea::tagging
