#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

// The files of a run and of a checkpoint: their names, and the small YAML ones, maps from names to plain text.
namespace fovea::nn {

// In a run's folder.
inline constexpr const char* kCheckpointsFolder = "checkpoints";
inline constexpr const char* kBestLink = "best";
inline constexpr const char* kLastLink = "last";
inline constexpr std::array kCheckpointLinks = {kBestLink, kLastLink};  // the model of a run is the first there is

// In a checkpoint's folder; averages are without the state of a training, the optimizer's and the progress.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kProgressFile = "progress.yml";
inline constexpr const char* kConfigFile = "config.yml";
inline constexpr const char* kChecksumFile = "checksums.yml";

// In the progress, which train/state.h fills: updates, and by measure the best value and the updates at which it was.
inline constexpr const char* kUpdatesEntry = "updates";
inline constexpr std::string_view kBestEntry = "best.", kBestUpdatesEntry = "best-updates.";

// In the progress, beside the state of the training: the --save-freq that the checkpoint was saved under.
inline constexpr const char* kSaveFreqEntry = "save-freq";

// Whether the name is one of those above: the files of the model's identity have others.
bool is_own_file(std::string_view name);

// Whether writing to `path`, links followed, would change or add a file of a checkpoint in its folder.
bool is_checkpoint_file(const std::filesystem::path& path);

std::string print_map(const std::map<std::string, std::string>& map);

// Errors begin with `source`. Entries whose value is not plain text are refused.
std::map<std::string, std::string> parse_map(std::string_view text, std::string_view source);

}  // namespace fovea::nn
