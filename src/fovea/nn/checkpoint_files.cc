#include "fovea/nn/checkpoint_files.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea::nn {
namespace fs = std::filesystem;

bool is_own_file(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames = {kModelFile, kOptimizerFile, kProgressFile, kConfigFile,
                                                             kChecksumFile};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool is_checkpoint_file(const fs::path& path) {
  std::error_code none_there;
  const fs::path file = fs::weakly_canonical(fs::absolute(path, none_there), none_there);
  const fs::path checksums = file.parent_path() / kChecksumFile;
  if (!fs::exists(checksums, none_there)) return false;
  const std::string name = file.filename().string();
  if (is_own_file(name)) return true;
  try {
    return parse_map(read_file(checksums), checksums.string()).contains(name);
  } catch (const Error&) {
    return false;  // damaged: the names of its own files are all that is known
  }
}

std::string print_map(const std::map<std::string, std::string>& map) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const auto& [key, value] : map) out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << value;
  out << YAML::EndMap << YAML::Newline;
  return out.c_str();
}

std::map<std::string, std::string> parse_map(std::string_view text, std::string_view source) {
  std::map<std::string, std::string> map;
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) throw Error(cat(source, ": damaged; expected 'name: value' lines"));
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar())
        throw Error(cat(source, ": damaged; expected plain values"));
      if (!map.emplace(entry.first.Scalar(), entry.second.Scalar()).second)
        throw Error(cat(source, ": damaged; '", entry.first.Scalar(), "' is there twice"));
    }
  } catch (const YAML::Exception& e) {
    throw Error(cat(source, ": damaged at line ", e.mark.line + 1, ": ", e.msg));
  }
  return map;
}

}  // namespace fovea::nn
