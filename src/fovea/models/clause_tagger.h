#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/nn/identity.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/clause_tagger.h"

// Tagging models that find clauses. A model of another task whose clauses they find keeps the whole tagger in its
// checkpoint, as files clause-tagger.NAME.
namespace fovea::models {

// The tagging model of `fovea clauses --tagger`. If its labels without a prefix are those of signal words
// (text::kSignalLabels and O), it labels signal words; if it has no labels with a prefix, it gives parts of speech.
// Throws an Error of one line for a model of another task or with other labels, or one that reads tags itself.
text::ClauseTagger load_clause_tagger(const std::string& model, const MachineOptions& machine,
                                      int64_t mini_batch_words);

// The files that a new model keeps of the tagger `model`, a run or a checkpoint; none if the name is empty. Throws an
// Error of one line that begins with `option` for one that is missing, damaged or of another kind.
std::map<std::string, std::string> clause_tagger_files(const std::string& model, std::string_view option);

// The tagger within a model, on the CPU; none if its identity holds none. A signal does not end its work.
std::optional<text::ClauseTagger> clause_tagger_of(const nn::Identity& identity);

}  // namespace fovea::models
