#include "fovea/spec/config_version.h"

#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

// "0.12.1" as {0, 12, 1}.
std::vector<int> numbers_of(std::string_view version, std::string_view source) {
  std::vector<int> numbers;
  for (const std::string& part : split(version, '.')) {
    const std::optional<int> number = number_in(part, 0, 1 << 30);
    if (!number) throw Error(cat(source, ": ", kVersionKey, ": got '", version, "'; expected a version such as 1.0.2"));
    numbers.push_back(*number);
  }
  return numbers;
}

// The version that the file names; empty if it names none or is not such YAML, which from_yaml() reports.
std::string version_in(std::string_view text) {
  try {
    return scalars_of_yaml(text)[std::string(kVersionKey)];
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

void from_versioned_yaml(std::string_view text, std::string_view source, std::string_view version,
                         std::span<const FieldView> fields, const ExplainKey& explain) {
  // The version is looked at first: a newer file may have keys that this program does not know.
  const std::string found = version_in(text);
  if (!found.empty() && numbers_of(found, source) > numbers_of(version, source))
    throw Error(cat(source, ": fovea ", found, " wrote this file, which is newer than this fovea (", version,
                    "); use that version, or remove the line ", kVersionKey, " if the options mean the same here"));
  std::string read;
  std::vector<FieldView> all(fields.begin(), fields.end());
  all.push_back({kVersionKey, "", -kNoLimit, kNoLimit, "", "", &read});
  // The config.yml of a checkpoint has the options of its model, and this key, which is the folder's.
  all.push_back({"checkpoint-format", "", -kNoLimit, kNoLimit, "", "", &read});
  from_yaml(text, source, all, explain);
}

}  // namespace fovea
