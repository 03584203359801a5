#pragma once
#include <map>
#include <string>

#include "fovea/spec/model_config.h"

namespace fovea::inspect {

// One of several --model whose figures become one mean.
struct ComparedModel {
  std::string name;  // as --model has it
  ModelConfig config;
  std::map<std::string, std::string> units = {};    // what decides which units a text has: names and contents
  std::map<std::string, std::string> options = {};  // names and values of options that decide how it reads a text
};

// Throws an Error that names --model unless `other` has the layers, the heads, the mechanisms, the vocabularies and the
// options of `first`: figures of other attentions, or of other units, have no common mean.
void require_one_shape(const ComparedModel& first, const ComparedModel& other);

}  // namespace fovea::inspect
