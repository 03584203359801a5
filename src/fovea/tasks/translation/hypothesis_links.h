#pragma once
#include <span>
#include <string>
#include <vector>

#include "fovea/analysis/alignment.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/tasks/translation/cross_attention.h"

namespace fovea::translation {

// The pass that finds the links of hypotheses.
struct LinkPass {
  LinkChoice choice;
  int64_t max_length = 0;  // tokens of a line that are read
  BatchLimits limits = {};
  const char* what = nullptr;  // see_cross_attention()
};

// Returns the links between the words of lines and of hypotheses for them: hypotheses[i] are those of lines[i]. A full
// pass over a hypothesis sees the same as the search did step by step, and the search keeps no weights of hypotheses
// that it drops.
std::vector<std::vector<analysis::Links>> links_of(LoadedModel& loaded, std::span<const std::string> lines,
                                                   const std::vector<std::vector<Sentence>>& hypotheses,
                                                   const LinkPass& pass);

}  // namespace fovea::translation
