#pragma once
#include <map>
#include <string>
#include <utility>

#include "fovea/text/clause_dictionary.h"

namespace fovea::text {

// Labels of `fovea clauses --label` by word, in lower case, and tag; the tag * is any.
using Corrections = std::map<std::pair<std::string, std::string>, std::string>;

// Reads lines "WORD TAG LABEL"; none from an empty path. Throws an Error of one line that names the place of the first
// mistake.
Corrections read_corrections(const std::string& path);

// The label of a word with a tag: that of the corrections, else that of its signal.
std::string label_of(const ClauseDictionary::Tagged& signal, const std::string& word, const std::string& tag,
                     const Corrections& corrections);

}  // namespace fovea::text
