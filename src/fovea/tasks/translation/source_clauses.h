#pragma once
#include <map>
#include <string>

#include "fovea/nn/clauses.h"
#include "fovea/spec/model_config.h"
#include "fovea/text/clause_dictionary.h"
#include "fovea/text/vocab.h"

// Models whose encoder attends within clauses split their source themselves, by the dictionary in their checkpoint.
namespace fovea::translation {

inline constexpr const char* kClausesFile = "clauses.txt";  // in a checkpoint

// Returns the splitter of a source in the pieces of a vocabulary (its bytes). It owns what it reads.
nn::ClauseSplitter clause_splitter(const std::string& vocab, const std::string& dictionary);

// The dictionary of a new model: the bytes of `path`, or of the English one; empty if the model has no clauses.
std::string clause_dictionary(const ModelConfig& model, const std::string& path);

}  // namespace fovea::translation
