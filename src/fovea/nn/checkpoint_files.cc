#include "fovea/nn/checkpoint_files.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

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

namespace {

void add_entry(std::map<std::string, std::string>& map, std::string name, std::string value, std::string_view source) {
  if (map.contains(name)) throw Error(cat(source, ": damaged; '", name, "' is there twice"));
  map.emplace(std::move(name), std::move(value));
}

bool is_plain_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_plain = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '_' || c == '-';
  };
  return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, is_plain);
}

bool is_plain_value(std::string_view value) {
  return std::ranges::none_of(value, [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; });
}

// The map of a text of lines `name: "value"` alone, which is how print_map() writes usual names and values; nothing for
// any other text. The YAML library takes seconds for a list of some hundred thousand tensors.
std::optional<std::map<std::string, std::string>> parse_plain_map(std::string_view text, std::string_view source) {
  constexpr std::string_view kBetween = ": \"", kEnd = "\"\n";
  std::map<std::string, std::string> map;
  while (!text.empty()) {
    const size_t between = text.find(kBetween), begin = between + kBetween.size();
    const size_t end = between == std::string_view::npos ? between : text.find(kEnd, begin);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view name = text.substr(0, between), value = text.substr(begin, end - begin);
    if (!is_plain_name(name) || !is_plain_value(value)) return std::nullopt;
    add_entry(map, std::string(name), std::string(value), source);
    text.remove_prefix(end + kEnd.size());
  }
  return map.empty() ? std::nullopt : std::optional(std::move(map));
}

}  // namespace

std::map<std::string, std::string> parse_map(std::string_view text, std::string_view source) {
  if (auto plain = parse_plain_map(text, source)) return *std::move(plain);
  std::map<std::string, std::string> map;
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) throw Error(cat(source, ": damaged; expected 'name: value' lines"));
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar())
        throw Error(cat(source, ": damaged; expected plain values"));
      add_entry(map, entry.first.Scalar(), entry.second.Scalar(), source);
    }
  } catch (const YAML::Exception& e) {
    throw Error(cat(source, ": damaged at line ", e.mark.line + 1, ": ", e.msg));
  }
  return map;
}

}  // namespace fovea::nn
