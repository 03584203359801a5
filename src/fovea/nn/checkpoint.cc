#include "fovea/nn/checkpoint.h"

#include <string_view>

#include "fovea/base/aside_folder.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_reader.h"
#include "fovea/nn/paths.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

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

void check_tensors(const CheckpointReader& reader, const std::string& name, const NamedTensors& tensors) {
  for (const auto& [tensor_name, tensor] : tensors) {
    if (CheckpointWriter::sum_of(tensor) != reader.sum_of(cat(name, "/", tensor_name)))
      throw Error(cat(reader.path(name), ": damaged: tensor '", tensor_name, "' does not have its checksum"));
  }
}

void check_types(const CheckpointReader& reader, const std::string& name, const NamedTensors& tensors) {
  for (const auto& [tensor_name, tensor] : tensors) {
    if (tensor.is_floating_point()) continue;
    throw Error(cat(reader.path(name), ": tensor '", tensor_name, "' has the type ",
                    safetensors_dtype(tensor_name, tensor), "; expected F32 or another floating-point type"));
  }
}

NamedTensors tensors_of(const CheckpointReader& reader, const std::string& name) {
  const auto [bytes, good] = reader.bytes_of(name);
  NamedTensors tensors = parse_safetensors(bytes, reader.path(name));
  check_tensors(reader, name, tensors);
  if (!good) throw Error(cat(reader.path(name), ": damaged: the file does not have its checksum"));
  check_types(reader, name, tensors);
  return tensors;
}

Checkpoint load_folder(const fs::path& folder, Load what, std::string_view option) {
  const CheckpointReader reader(folder, option);
  Checkpoint checkpoint;
  checkpoint.folder = folder;
  checkpoint.identity = reader.identity();
  checkpoint.identity.files = reader.identity_files();
  checkpoint.model = tensors_of(reader, kModelFile);
  if (what == Load::kModel) return checkpoint;
  if (!reader.has(kOptimizerFile) || !reader.has(kProgressFile))
    throw Error(cat("'", folder.string(), "' holds a model alone, no training state; start from its weights with ",
                    "--pretrained-model"));
  checkpoint.optimizer = tensors_of(reader, kOptimizerFile);
  checkpoint.progress = parse_map(reader.file(kProgressFile), reader.path(kProgressFile));
  return checkpoint;
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
  if (const std::string other = other_than_checkpoint(folder); replaces && !other.empty())
    throw Error(cat("'", other, "' is not a file of the checkpoint there; move it away or choose another folder"));
  CheckpointWriter writer(folder);
  writer.file(kConfigFile, print_config(checkpoint.identity));
  for (const auto& [name, contents] : checkpoint.identity.files) writer.file(name, contents);
  writer.tensors(kModelFile, checkpoint.model);
  if (!checkpoint.optimizer.empty()) writer.tensors(kOptimizerFile, checkpoint.optimizer);
  if (!checkpoint.progress.empty()) writer.file(kProgressFile, print_map(checkpoint.progress));
  writer.finish();
}

Checkpoint read_checkpoint(const fs::path& folder, Load what, std::string_view option) {
  require_folder(folder, option);
  if (what == Load::kAll && !is_checkpoint(folder, option)) return resume(folder);
  const ChosenCheckpoint chosen = choose_model(folder, option);
  Checkpoint checkpoint =
      read_followed(chosen.folder, [&](const fs::path& path) { return load_folder(path, what, option); });
  if (what == Load::kModel) warn_of_choice(chosen.problem, checkpoint.folder);
  return checkpoint;
}

Checkpoint load_checkpoint(const fs::path& folder, Load what, std::string_view option) {
  Checkpoint checkpoint = read_checkpoint(folder, what, option);
  if (what == Load::kModel) say_checkpoint(folder, checkpoint.folder);
  return checkpoint;
}

}  // namespace fovea::nn
