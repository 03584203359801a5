#include "fovea/nn/checkpoint_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>

#include "fovea/base/fields.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/config_yaml.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kFormat = 2;

// The lines of config.yml before the model's own fields.
struct Origin {
  int64_t checkpoint_format = kFormat;
  std::string fovea_version = FOVEA_VERSION;
  std::string task;

  static constexpr auto fields() {
    return std::tuple(number("checkpoint-format", &Origin::checkpoint_format, "format of the folder", 1),
                      field("fovea-version", &Origin::fovea_version, "version that wrote it"),
                      field("task", &Origin::task, "task of the model"));
  }
};

// The format is looked at first: a newer one may have fields that this program does not know.
void check_format(std::string_view text, const std::string& source) {
  constexpr std::string_view kKey = "checkpoint-format:";
  for (const std::string& line : split(text, '\n')) {
    if (!std::string_view(line).starts_with(kKey)) continue;
    const std::string_view format = trim(std::string_view(line).substr(kKey.size()));
    if (format == std::to_string(kFormat)) return;
    throw Error(cat(source, ": checkpoint format ", format, ", this fovea (", FOVEA_VERSION, ") reads format ", kFormat,
                    "; use the version that wrote it"));
  }
  throw Error(cat(source, ": no checkpoint-format; is this a checkpoint of fovea?"));
}

// Task and configuration. The origin's lines stay in the configuration's text as empty ones, so that errors name the
// right line.
Identity parse_config(std::string_view text, const std::string& source) {
  check_format(text, source);
  Origin origin;
  const std::vector<FieldView> known = field_views(origin);
  Identity identity;
  std::string own;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view key = std::string_view(line).substr(0, line.find(':'));
    const bool is_own = std::ranges::any_of(known, [&](const FieldView& field) { return field.name == key; });
    (is_own ? own : identity.config) += line;
    own += "\n";
    identity.config += "\n";
  }
  from_yaml(own, source, origin);
  require_every_field(own, source, known);
  identity.task = origin.task;
  return identity;
}

bool is_checksum(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string print_config(const Identity& identity) {
  Origin origin;
  origin.task = identity.task;
  return cat(to_yaml(origin), trim(identity.config), "\n");
}

CheckpointReader::CheckpointReader(fs::path folder, std::string_view option)
    : folder_(std::move(folder)), option_(option) {
  if (!is_checkpoint(folder_, option))
    throw Error(cat("'", folder_.string(), "' is not a checkpoint: it has no ", kChecksumFile));
  sums_ = parse_map(read_regular(kChecksumFile), path(kChecksumFile));
  for (const auto& [name, sum] : sums_) {
    if (!is_checksum(sum))
      throw Error(cat(path(kChecksumFile), ": damaged: '", name, "': got '", sum,
                      "'; expected a checksum of 16 hexadecimal digits"));
  }
}

std::string CheckpointReader::file(const std::string& name) const {
  auto [bytes, good] = bytes_of(name);
  if (!good) throw Error(cat(path(name), ": damaged: its checksum is ", checksum(bytes), ", not ", sums_.at(name)));
  return bytes;
}

std::pair<std::string, bool> CheckpointReader::bytes_of(const std::string& name) const {
  const auto sum = sums_.find(name);
  if (sum == sums_.end()) throw Error(cat(path(kChecksumFile), ": damaged: it does not name ", name));
  if (!path_exists(path(name), option_)) throw Error(cat(path(name), ": missing from the checkpoint"));
  std::string bytes = read_regular(name);
  const bool good = checksum(bytes) == sum->second;
  return {std::move(bytes), good};
}

std::string_view CheckpointReader::sum_of(const std::string& name) const {
  const auto found = sums_.find(name);
  return found == sums_.end() ? std::string_view() : found->second;
}

Identity CheckpointReader::identity() const { return parse_config(file(kConfigFile), path(kConfigFile)); }

std::map<std::string, std::string> CheckpointReader::identity_files() const {
  std::map<std::string, std::string> files;
  for (const auto& [name, sum] : sums_) {
    if (name.find('/') == std::string::npos && !is_own_file(name)) files[name] = file(name);
  }
  return files;
}

std::string CheckpointReader::read_regular(const std::string& name) const {
  std::error_code none_there;
  if (!fs::is_regular_file(path(name), none_there))
    throw Error(cat(path(name), ": is not a regular file; expected the file of a checkpoint"));
  return read_file(path(name));
}

FollowedFolder target_of(const fs::path& folder) {
  const fs::path link = folder.has_filename() ? folder : folder.parent_path();  // without a slash at the end
  std::error_code gone;
  const fs::path path = fs::is_symlink(link, gone) ? fs::canonical(link, gone) : link;
  FollowedFolder followed = {.path = gone ? link : path};
  struct stat status = {};
  if (stat(followed.path.c_str(), &status) == 0) followed.number = status.st_ino;
  return followed;
}

}  // namespace fovea::nn
