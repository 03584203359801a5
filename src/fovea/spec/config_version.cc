#include "fovea/spec/config_version.h"

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

// "0.12.1" as {0, 12, 1}; nothing for what is not a version.
std::optional<std::vector<int>> numbers_of(std::string_view version) {
  std::vector<int> numbers;
  for (const std::string& part : split(version, '.')) {
    int& number = numbers.emplace_back();
    const char* const end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, number);
    if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  }
  return numbers;
}

// The version that the file names; nothing if it names none or is not such YAML, which from_yaml reports.
std::string version_in(std::string_view text) {
  try {
    const std::map<std::string, std::string> values = scalars_of_yaml(text);
    const auto found = values.find(std::string(kVersionKey));
    return found == values.end() ? "" : found->second;
  } catch (const Error&) {
    return "";
  }
}

void check_version(const std::string& found, std::string_view source, std::string_view version) {
  const auto numbers = numbers_of(found);
  if (!numbers)
    throw Error(cat(source, ": ", kVersionKey, ": got '", found, "'; expected a version such as ", version));
  if (*numbers > *numbers_of(version))
    throw Error(cat(source, ": fovea ", found, " wrote this file, which is newer than this fovea (", version,
                    "); use that version, or remove the line ", kVersionKey, " if the options mean the same here"));
}

}  // namespace

void from_versioned_yaml(std::string_view text, std::string_view source, std::string_view version,
                         std::span<const FieldView> fields, const ExplainKey& explain) {
  const std::string found = version_in(text);
  if (!found.empty()) check_version(found, source, version);
  std::string read;
  std::vector<FieldView> all(fields.begin(), fields.end());
  all.push_back({kVersionKey, "", -kNoLimit, kNoLimit, "", "", &read});
  // The config.yml of a checkpoint has the options of its model, and this key, which is the folder's.
  all.push_back({"checkpoint-format", "", -kNoLimit, kNoLimit, "", "", &read});
  from_yaml(text, source, all, [&](const std::string& key) -> std::string {
    if (const std::string more = explain ? explain(key) : ""; !more.empty()) return more;
    if (found.empty() || found == version) return "";
    return cat("; fovea ", found, " wrote this file, and this is fovea ", version,
               "; use that version, or remove the line");
  });
}

}  // namespace fovea
