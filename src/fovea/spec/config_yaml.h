#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/fields.h"

namespace fovea {

// YAML of configurations: a map from field names to values, lists as sequences.
std::string to_yaml(std::span<const FieldView> fields);

// Sets the fields that `text` names. Unknown keys, wrong types and malformed YAML throw an Error that begins with
// `source` (a file's name) and the line, names the key and suggests the nearest known one. `explain` may say more of an
// unknown key, such as "; it is an option of ..."; if it returns nothing, the nearest known one is suggested.
using ExplainKey = std::function<std::string(const std::string& key)>;
void from_yaml(std::string_view text, std::string_view source, std::span<const FieldView> fields,
               const ExplainKey& explain = nullptr);

// Throws an Error that begins with `source` and names the first field that `text`, which from_yaml has read, leaves
// out.
void require_every_field(std::string_view text, std::string_view source, std::span<const FieldView> fields);

// The entries of a map whose values are plain scalars or lists of them, "_" in keys as "-". Throws an Error if the text
// is not such YAML.
std::map<std::string, std::vector<std::string>> values_of_yaml(std::string_view text);
// Returns the keys with one value.
std::map<std::string, std::string> scalars_of_yaml(std::string_view text);

template <class S>
requires requires { S::fields(); }
std::string to_yaml(const S& config) {
  S copy = config;
  return to_yaml(std::span<const FieldView>(field_views(copy)));
}

template <class S>
requires requires { S::fields(); }
void from_yaml(std::string_view text, std::string_view source, S& config) {
  from_yaml(text, source, std::span<const FieldView>(field_views(config)));
}

}  // namespace fovea
