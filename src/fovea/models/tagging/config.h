#pragma once
#include <string>
#include <tuple>

#include "fovea/base/fields.h"
#include "fovea/metrics/chunks.h"
#include "fovea/spec/model_config.h"

namespace fovea::tagging {

inline constexpr const char* kTask = "tagging";
// Encoders that `fovea convert` makes: taggers can start from them.
inline constexpr const char* kEncoderTask = "bert";

// The configuration that a tagger's checkpoint keeps: its encoder, and how its labels are written.
struct TaggingConfig : EncoderConfig {
  int64_t clause_tag_column = 0;
  std::string label_dialect = "auto";  // a trained model's is one of metrics::kLabelDialectNames
  std::string label_form = "auto";     // as metrics::print_label_form() has it; auto: labels that mark no chunks

  static constexpr auto fields() {
    using C = TaggingConfig;
    return std::tuple_cat(
        EncoderConfig::fields(),
        std::tuple(
            number("clause-tag-column", &C::clause_tag_column,
                   "column of part-of-speech tags by which sentences are split, for mechanisms with clauses (0: "
                   "by words alone)",
                   0, 1000),
            choice("label-dialect", &C::label_dialect,
                   "letters of the words of a chunk: B only between chunks (iob1), B at each beginning (iob2), E "
                   "only between chunks (ioe1), E at each end (ioe2), I alone (io); B, I, E and S for a single "
                   "word (iobes), B I L U (bilou), B M E S (bmes), B M E W (bmewo), B I E U (bieou), B I E W "
                   "(biewo), B I S (bios), B I E (bieo); words: labels mark no chunks; auto: that of most "
                   "chunks of the training data",
                   metrics::kLabelDialectChoices),
            field("label-form", &C::label_form,
                  "how labels are made, as the first label of a chunk of the type TYPE, such as B-TYPE, TYPE_B "
                  "or b-TYPE, or B for labels without types; O or o behind a blank says how other words are "
                  "labelled, if not in the case of the letter; auto: as the training data")));
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const TaggingConfig& config);

// The notation in which a trained model writes labels. Errors begin with `origin`.
metrics::LabelNotation notation_of(const TaggingConfig& config, const std::string& origin);

// The tokens that the encoder reads at once; 0: no limit.
int64_t longest_sequence(const TaggingConfig& config);

}  // namespace fovea::tagging
