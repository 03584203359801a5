#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "fovea/nn/checkpoint.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/clause_tagger.h"

namespace fovea::tagging {

// The tagging model of `fovea clauses --tagger`. If its labels without a prefix are those of signal words
// (text::kSignalLabels and O), it labels signal words; if it has no labels with a prefix, it gives parts of speech.
// Throws an Error of one line for a model of another task or with other labels, or one that reads tags itself.
text::ClauseTagger load_clause_tagger(const std::string& model, const MachineOptions& machine,
                                      int64_t mini_batch_words);

// The tagger in the checkpoint of a model of another task, whose clauses it finds, on the CPU: a signal does not end
// its work. Errors begin with `option`.
text::ClauseTagger clause_tagger_of(const nn::Checkpoint& model, std::string_view option);

}  // namespace fovea::tagging
