#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/nn/checkpoint.h"
#include "fovea/text/clause_tagger.h"

// Models whose clauses a tagger finds: their checkpoints hold the whole tagger, as files clause-tagger.NAME.
namespace fovea::models {

// Makes a tagger of a checkpoint's model. Throws an Error of one line that begins with `option` if its task or its
// labels do not fit.
using ClauseTaggerLoader = std::function<text::ClauseTagger(const nn::Checkpoint& model, std::string_view option)>;

// This layer knows no task, so the list of tasks says once, before any model is loaded, how taggers are made.
void set_clause_tagger_loader(ClauseTaggerLoader loader);

// The files that a new model keeps of the tagger `model`, a run or a checkpoint; none if the name is empty. Throws an
// Error of one line that begins with `option` for one that is missing, damaged or of another kind.
std::map<std::string, std::string> clause_tagger_files(const std::string& model, std::string_view option);

// The tagger of a model; none if its identity holds none.
std::optional<text::ClauseTagger> clause_tagger_of(const nn::Identity& identity);

}  // namespace fovea::models
