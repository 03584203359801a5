#include "fovea/nn/identity.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace fovea::nn {
namespace {

constexpr std::array<std::string_view, 13> kMeaningFields = {"transformer-heads",
                                                             "transformer-norm",
                                                             "transformer-norm-kind",
                                                             "transformer-positions",
                                                             "transformer-ffn-activation",
                                                             "norm-epsilon",
                                                             "decoder-start",
                                                             "embedding-scale",
                                                             "norm-gain",
                                                             "attention-scalar",
                                                             "logit-softcap",
                                                             "positions-layers",
                                                             "language-marks"};

using Fields = std::vector<std::pair<std::string, std::string>>;

// Every field with its value as one text, lists joined by blanks. The YAML is the program's own.
Fields fields_of(const std::string& yaml) {
  Fields fields;
  for (const auto& entry : YAML::Load(yaml)) {
    std::vector<std::string> values;
    if (entry.second.IsScalar()) values.push_back(entry.second.Scalar());
    if (entry.second.IsSequence()) {
      for (const YAML::Node& item : entry.second) values.push_back(item.Scalar());
    }
    fields.emplace_back(entry.first.Scalar(), join(values, " "));
  }
  return fields;
}

std::optional<IdentityDifference> first_file_difference(const Identity& saved, const Identity& wanted) {
  using Kind = IdentityDifference::Kind;
  for (const auto& [name, contents] : wanted.files) {
    const auto found = saved.files.find(name);
    if (found == saved.files.end()) return IdentityDifference{Kind::kFile, name, "", contents};
    if (found->second != contents) return IdentityDifference{Kind::kFile, name, found->second, contents};
  }
  for (const auto& [name, contents] : saved.files) {
    if (!wanted.files.contains(name)) return IdentityDifference{Kind::kFile, name, contents, ""};
  }
  return std::nullopt;
}

}  // namespace

std::vector<IdentityDifference> field_differences(const Identity& saved, const Identity& wanted) {
  using Kind = IdentityDifference::Kind;
  std::vector<IdentityDifference> differences;
  const Fields saved_fields = fields_of(saved.config), wanted_fields = fields_of(wanted.config);
  const std::map<std::string, std::string> known(saved_fields.begin(), saved_fields.end());
  for (const auto& [name, value] : wanted_fields) {
    const auto before = known.find(name);
    if (before != known.end() && before->second != value)
      differences.push_back({Kind::kField, name, before->second, value});
  }
  return differences;
}

std::optional<IdentityDifference> first_difference(const Identity& saved, const Identity& wanted) {
  if (saved.task != wanted.task)
    return IdentityDifference{IdentityDifference::Kind::kTask, "task", saved.task, wanted.task};
  if (auto difference = first_file_difference(saved, wanted)) return difference;
  const std::vector<IdentityDifference> fields = field_differences(saved, wanted);
  return fields.empty() ? std::nullopt : std::optional(fields.front());
}

bool decides_meaning_of_weights(std::string_view field) {
  return std::ranges::find(kMeaningFields, field) != kMeaningFields.end();
}

}  // namespace fovea::nn
