#include "fovea/nn/checkpoint.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/fields.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/config_yaml.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kFormat = 1;

// The lines of config.yml before the model's own fields.
struct Origin {
  int64_t checkpoint_format = kFormat;
  std::string fovea_version = FOVEA_VERSION;
  std::string task = Identity().task;

  static constexpr auto fields() {
    return std::tuple(number("checkpoint-format", &Origin::checkpoint_format, "format of the folder", 1),
                      field("fovea-version", &Origin::fovea_version, "version that wrote it"),
                      field("task", &Origin::task, "task of the model"));
  }
};

std::string print_config(const Identity& identity) {
  Origin origin;
  origin.task = identity.task;
  return cat(to_yaml(origin), trim(identity.config), "\n");
}

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
  identity.task = origin.task;
  return identity;
}

class CheckpointWriter {
 public:
  explicit CheckpointWriter(const fs::path& folder) : folder_(folder) {}

  void file(const std::string& name, std::string_view bytes) {
    write_file(folder_.path() / name, bytes);
    sums_[name] = checksum(bytes);
  }
  void tensors(const std::string& name, const NamedTensors& tensors) {
    file(name, print_safetensors(tensors));
    for (const auto& [tensor_name, tensor] : tensors) sums_[cat(name, "/", tensor_name)] = sum_of(tensor);
  }
  void finish() {
    write_file(folder_.path() / kChecksumFile, print_map(sums_));
    folder_.commit();
  }

  static std::string sum_of(const at::Tensor& tensor) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    return checksum({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }

 private:
  AsideFolder folder_;
  std::map<std::string, std::string> sums_;
};

bool is_checksum(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

class CheckpointReader {
 public:
  CheckpointReader(fs::path folder, std::string_view option) : folder_(std::move(folder)), option_(option) {
    if (!is_checkpoint(folder_, option))
      throw Error(cat("'", folder_.string(), "' is not a checkpoint: it has no ", kChecksumFile));
    sums_ = parse_map(read_regular(kChecksumFile), path(kChecksumFile));
    for (const auto& [name, sum] : sums_) {
      if (!is_checksum(sum))
        throw Error(cat(path(kChecksumFile), ": damaged: '", name, "': got '", sum,
                        "'; expected a checksum of 16 hexadecimal digits"));
    }
  }

  bool has(const std::string& name) const { return sums_.contains(name); }

  std::string file(const std::string& name) const {
    auto [bytes, good] = read(name);
    if (!good) throw Error(cat(path(name), ": damaged: its checksum is ", checksum(bytes), ", not ", sums_.at(name)));
    return bytes;
  }

  NamedTensors tensors(const std::string& name) const {
    const auto [bytes, good] = read(name);
    NamedTensors tensors = parse_safetensors(bytes, path(name));
    check_tensors(name, tensors);
    if (!good) throw Error(cat(path(name), ": damaged: the file does not have its checksum"));
    check_types(name, tensors);
    return tensors;
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // The files of the model's identity: all that the checkpoint has besides its own.
  std::map<std::string, std::string> identity_files() const {
    std::map<std::string, std::string> files;
    for (const auto& [name, sum] : sums_) {
      if (name.find('/') == std::string::npos && !is_own_file(name)) files[name] = file(name);
    }
    return files;
  }

 private:
  std::pair<std::string, bool> read(const std::string& name) const {
    const auto sum = sums_.find(name);
    if (sum == sums_.end()) throw Error(cat(path(kChecksumFile), ": damaged: it does not name ", name));
    if (!path_exists(path(name), option_)) throw Error(cat(path(name), ": missing from the checkpoint"));
    std::string bytes = read_regular(name);
    const bool good = checksum(bytes) == sum->second;
    return {std::move(bytes), good};
  }

  // A named pipe or a device in a stranger's folder would never end.
  std::string read_regular(const std::string& name) const {
    std::error_code none_there;
    if (!fs::is_regular_file(path(name), none_there))
      throw Error(cat(path(name), ": is not a regular file; expected the file of a checkpoint"));
    return read_file(path(name));
  }

  void check_tensors(const std::string& name, const NamedTensors& tensors) const {
    for (const auto& [tensor_name, tensor] : tensors) {
      const auto sum = sums_.find(cat(name, "/", tensor_name));
      if (sum == sums_.end() || CheckpointWriter::sum_of(tensor) != sum->second)
        throw Error(cat(path(name), ": damaged: tensor '", tensor_name, "' does not have its checksum"));
    }
  }

  void check_types(const std::string& name, const NamedTensors& tensors) const {
    for (const auto& [tensor_name, tensor] : tensors) {
      if (tensor.is_floating_point()) continue;
      throw Error(cat(path(name), ": tensor '", tensor_name, "' has the type ", safetensors_dtype(tensor_name, tensor),
                      "; expected F32 or another floating-point type"));
    }
  }

  fs::path folder_;
  std::string_view option_;
  std::map<std::string, std::string> sums_;
};

Checkpoint load_folder(const fs::path& folder, Load what, std::string_view option) {
  const CheckpointReader reader(folder, option);
  Checkpoint checkpoint;
  checkpoint.folder = folder;
  checkpoint.identity = parse_config(reader.file(kConfigFile), reader.path(kConfigFile));
  if (what == Load::kIdentity) return checkpoint;
  checkpoint.identity.files = reader.identity_files();
  checkpoint.model = reader.tensors(kModelFile);
  if (what == Load::kModel) return checkpoint;
  if (!reader.has(kOptimizerFile) || !reader.has(kProgressFile))
    throw Error(cat("'", folder.string(), "' holds a model alone, no training state; start from its weights with ",
                    "--pretrained-model"));
  checkpoint.optimizer = reader.tensors(kOptimizerFile);
  checkpoint.progress = parse_map(reader.file(kProgressFile), reader.path(kProgressFile));
  return checkpoint;
}

// Through a link, as a run's `best` is one, that the training may move while this reads; what it led to before may then
// be removed.
Checkpoint load_followed(const fs::path& folder, Load what, std::string_view option) {
  constexpr int kTries = 10;
  const fs::path link = folder.has_filename() ? folder : folder.parent_path();  // without a slash at the end
  const auto target = [&] {
    std::error_code gone;
    const fs::path path = fs::is_symlink(link, gone) ? fs::canonical(link, gone) : link;
    return gone ? link : path;
  };
  fs::path path = target();
  for (int i = 1;; ++i) {
    try {
      return load_folder(path, what, option);
    } catch (const Error&) {
      const fs::path now = target();
      if (now == path || i == kTries) throw;
      path = now;
    }
  }
}

Checkpoint resume(const fs::path& run) {
  const std::vector<fs::path> candidates = checkpoints_to_resume(run);
  std::string first_problem;
  for (auto path = candidates.rbegin(); path != candidates.rend(); ++path) {
    try {
      Checkpoint checkpoint = load_folder(*path, Load::kAll, "--model");
      warn_of_choice(problem_of_last(run), *path);
      if (!first_problem.empty()) log::warn(cat(first_problem, "; resuming from ", path->string()));
      return checkpoint;
    } catch (const Error& e) {
      if (first_problem.empty()) first_problem = e.what();
    }
  }
  throw Error(cat("'", run.string(), "' has no whole checkpoint",
                  first_problem.empty() ? "" : cat(" (", first_problem, ")"),
                  "; begin again with --overwrite or another --model"));
}

}  // namespace

void save_checkpoint(const fs::path& path, const Checkpoint& checkpoint) {
  const fs::path folder = path.has_filename() ? path : path.parent_path();  // without a slash at the end
  constexpr std::string_view kWhat = "saving";
  const bool replaces = is_checkpoint(folder, kWhat) || (is_folder(folder, kWhat) && entries_of(folder, kWhat).empty());
  if (!replaces && path_exists(folder, kWhat))
    throw Error(cat("'", folder.string(), "' exists and is not a checkpoint; choose another folder"));
  CheckpointWriter writer(folder);
  writer.file(kConfigFile, print_config(checkpoint.identity));
  for (const auto& [name, contents] : checkpoint.identity.files) writer.file(name, contents);
  writer.tensors(kModelFile, checkpoint.model);
  if (!checkpoint.optimizer.empty()) writer.tensors(kOptimizerFile, checkpoint.optimizer);
  if (!checkpoint.progress.empty()) writer.file(kProgressFile, print_map(checkpoint.progress));
  writer.finish();
}

bool is_checkpoint(const fs::path& folder, std::string_view option) {
  return path_exists(folder / kChecksumFile, option);
}

namespace {

void require_folder(const fs::path& folder, std::string_view option) {
  if (!path_exists(folder, option)) {
    std::error_code none_there;
    const fs::path target = fs::read_symlink(folder.has_filename() ? folder : folder.parent_path(), none_there);
    throw Error(cat(option, ": no such folder: '", folder.string(), "'",
                    target.empty() ? "" : cat(", a link to '", target.string(), "', which does not exist")));
  }
  if (!is_folder(folder, option))
    throw Error(cat(option, ": '", folder.string(), "' is a file; a run's or a checkpoint's folder is expected"));
}

}  // namespace

Checkpoint read_checkpoint(const fs::path& folder, Load what, std::string_view option) {
  require_folder(folder, option);
  if (what == Load::kAll && !is_checkpoint(folder, option)) return resume(folder);
  const ChosenCheckpoint chosen = choose_model(folder, option);
  Checkpoint checkpoint = load_followed(chosen.folder, what, option);
  if (what == Load::kModel) warn_of_choice(chosen.problem, checkpoint.folder);
  return checkpoint;
}

Checkpoint load_checkpoint(const fs::path& folder, Load what, std::string_view option) {
  Checkpoint checkpoint = read_checkpoint(folder, what, option);
  if (what == Load::kModel) say_checkpoint(folder, checkpoint);
  return checkpoint;
}

std::string task_of_checkpoint(const fs::path& folder, std::string_view option) {
  require_folder(folder, option);
  return load_followed(choose_model(folder, option).folder, Load::kIdentity, option).identity.task;
}

}  // namespace fovea::nn
