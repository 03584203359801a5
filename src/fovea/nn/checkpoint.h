#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/spec/model_config.h"

// A checkpoint is a folder: model.safetensors, config.yml (every ModelConfig field, and fovea's version), source.spm and
// target.spm, and, for resuming, optimizer.safetensors and progress.yml; checksums.yml names every file with its XXH3
// sum and is checked on loading. It is written aside, synced and renamed: killed at any byte, the last good one loads.
// A run's folder has checkpoints/update-00001000/ ..., and the names `last` and `best` are links to two of them.
namespace fovea::nn {

using NamedTensors = std::map<std::string, at::Tensor>;

// safetensors, little endian, C order, sorted by name; `metadata` goes to __metadata__.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});
// Throws an Error that names the file and what is wrong: truncated, not safetensors, holes, a bad shape ...
NamedTensors load_safetensors(const std::filesystem::path& path);

struct Checkpoint {
  ModelConfig config;
  NamedTensors model;
  NamedTensors optimizer;                       // empty for averaged models
  std::map<std::string, std::string> progress;  // updates, epoch, position, best values ..., for resuming
  std::string source_vocab, target_vocab;       // contents of the .spm files
};

void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

enum class Load : uint8_t { kModel, kAll };
// `folder` is a checkpoint, or a run's folder: then its `best` (kModel) or `last` (kAll).
Checkpoint load_checkpoint(const std::filesystem::path& folder, Load what);

// A run's checkpoints that are whole, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);

}  // namespace fovea::nn
