#pragma once
#include <string>
#include <tuple>

#include "fovea/base/fields.h"
#include "fovea/spec/encoder_config.h"

namespace fovea::tagging {

inline constexpr const char* kTask = "tagging";
// Encoders that `fovea convert` makes: taggers can start from them.
inline constexpr const char* kEncoderTask = "bert";

// What a checkpoint of a tagger keeps: its encoder, and how its labels are written.
struct TaggingConfig : EncoderConfig {
  int64_t clause_tag_column = 0;
  std::string label_dialect = "auto";  // a trained model's is one of metrics::kLabelDialectNames

  static constexpr auto fields() {
    using C = TaggingConfig;
    return std::tuple_cat(
        EncoderConfig::fields(),
        std::tuple(number("clause-tag-column", &C::clause_tag_column,
                          "column of part-of-speech tags by which sentences are split, for mechanisms with clauses (0: "
                          "by words alone)",
                          0, 1000),
                   choice("label-dialect", &C::label_dialect,
                          "how labels mark the words of a name: B only between names (iob1), B at each beginning "
                          "(iob2), E at the end and S alone (iobes), L and U (bilou); auto: as in the training data",
                          "auto|iob1|iob2|iobes|bilou")));
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const TaggingConfig& config);

// The tokens that the encoder reads at once; 0: no limit.
int64_t longest_sequence(const TaggingConfig& config);

}  // namespace fovea::tagging
