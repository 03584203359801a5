#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_yaml.h"

namespace fovea::nn {

// A model without its weights. Training and averaging compare identities; only the model's task reads them.
struct Identity {
  std::string task;                          // the name in the list of tasks
  std::string config;                        // YAML of the model's configuration
  std::map<std::string, std::string> files;  // contents by plain file name: "source.spm", "labels.txt"
};

template <class Config>
Identity identity_of(std::string_view task, const Config& config, std::map<std::string, std::string> files) {
  return {std::string(task), to_yaml(config), std::move(files)};
}

// The configuration of an identity, which names every field, checked by validate(). `origin` names the file in errors.
template <class Config>
Config config_of(const Identity& identity, const std::string& origin) {
  Config config;
  from_yaml(identity.config, origin, config);
  require_every_field(identity.config, origin, field_views(config));
  try {
    validate(config);
  } catch (const Error& e) {
    const std::string text = e.what();  // its first line: the lines after it point into a spec on the command line
    throw Error(cat(origin, ": ", text.substr(0, text.find('\n'))));
  }
  return config;
}

// One difference between two identities: of a configuration field, or of a file.
struct IdentityDifference {
  enum class Kind : unsigned char { kTask, kField, kFile };
  Kind kind = Kind::kField;
  std::string name;           // of the field or file
  std::string first, second;  // the values of a field, the two tasks; for a file "" if it is missing
};
// Returns the fields that differ, in the order of `wanted`. Models of two tasks have other fields, so only the fields
// that both have are compared.
std::vector<IdentityDifference> field_differences(const Identity& saved, const Identity& wanted);
// The first difference: task, then files, then fields.
std::optional<IdentityDifference> first_difference(const Identity& saved, const Identity& wanted);

// Whether the values of this field decide what weights mean although their names and shapes may be the same for all:
// weights trained with one value compute something else with another. Mechanisms and dropouts are not among these
// fields, because a model may learn on with others.
bool decides_meaning_of_weights(std::string_view field);

}  // namespace fovea::nn
