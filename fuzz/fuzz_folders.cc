#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fovea/base/file_set.h"
#include "fovea/base/replace.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_run.h"
#include "loaders/loaders.h"

// Folders as strangers may hand them over. The first byte says what the rest is: 'l' the files that a killed process
// leaves beside its output, 'r' a run.
namespace fovea::fuzz {
namespace fs = std::filesystem;
namespace {

// A folder of this process, which goes with it.
class WorkFolder {
 public:
  WorkFolder() : path_(fs::temp_directory_path() / "fovea-fuzz-XXXXXX") {
    std::string pattern = path_;
    require(mkdtemp(pattern.data()) != nullptr, "there is no folder for temporary files");
    path_ = pattern;
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& emptied() const {
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
    return path_;
  }

 private:
  fs::path path_;
};

const fs::path& work_folder() {
  static const WorkFolder folder;
  return folder.emptied();
}

void put(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void make_marked(const fs::path& folder) {
  fs::create_directory(folder);
  put(folder / "mark", cat("Fovea made this folder for output that is not whole yet. Its process:\n", getpid(), "\n"));
  for (const char* const name : {"new1", "old1", "new2", "old2"}) put(folder / name, name);
}

// The lists of two marked folders, apart by a byte 1; the second list is that of a folder elsewhere if it begins with a
// byte 2. Whatever they say, the user's files stay as they are.
void tidy_lists(std::string_view bytes) {
  const fs::path& base = work_folder();
  const fs::path home = base / "home", other = base / "other";
  const std::array mine = {home / "a", home / "kept", other / "kept", base / "kept"};
  fs::create_directory(home);
  fs::create_directory(other);
  for (const fs::path& path : mine) put(path, "the user's");
  const size_t end = std::min(bytes.find('\1'), bytes.size());
  std::string_view second = bytes.substr(std::min(end + 1, bytes.size()));
  const bool is_elsewhere = second.starts_with('\2');
  if (is_elsewhere) second.remove_prefix(1);
  const fs::path first_aside = home / ".fovea-0123456789abcdef",
                 second_aside = (is_elsewhere ? other : home) / ".fovea-fedcba9876543210";
  make_marked(first_aside);
  make_marked(second_aside);
  put(first_aside / "list", cat("Fovea replaces these files together:\n", bytes.substr(0, end)));
  put(second_aside / "list-place", cat("Fovea's list of what it replaces together is:\n", second));
  const std::array folders = {home, other};
  try {
    finish_killed_replacements(std::span(folders).first(is_elsewhere ? 2 : 1));
    finish_killed_commits({home / "b"});
    remove_leftovers(folders);
  } catch (const Error&) {
    // A file cannot be put in place.
  }
  for (const fs::path& path : mine) require(text_of(path) == "the user's", "a file of the user has changed");
}

constexpr std::array kEntries = {"last",
                                 "best",
                                 "checkpoints",
                                 "checkpoints/update-00000001",
                                 "checkpoints/update-00000002",
                                 "checkpoints/update-99999999999999999999",
                                 "checkpoints/update-00000001/config.yml",
                                 "checkpoints/update-00000001/checksums.yml",
                                 "checkpoints/update-00000001/progress.yml",
                                 "checkpoints/update-00000001/model.safetensors",
                                 "checkpoints/update-00000002/config.yml",
                                 "checkpoints/update-00000002/checksums.yml",
                                 "checkpoints/update-00000002/progress.yml",
                                 "checkpoints/notes",
                                 "config.yml",
                                 "checksums.yml",
                                 "progress.yml",
                                 "model.safetensors",
                                 "train.yml",
                                 "log.jsonl"};

// Entries of three bytes each: what is there, its name, and for a link its target, or for a file the bytes up to the
// next byte 1, after those three.
void make_run(const fs::path& run, std::string_view bytes) {
  fs::create_directory(run);
  std::error_code ignored;
  while (bytes.size() >= 3) {
    const auto number = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
    const fs::path path = run / kEntries[number(1) % kEntries.size()];
    fs::create_directories(path.parent_path(), ignored);
    const size_t kind = number(0) % 3, target = number(2) % kEntries.size();
    bytes.remove_prefix(3);
    if (kind == 0) fs::create_directory(path, ignored);
    if (kind == 1) fs::create_symlink(kEntries[target], path, ignored);
    if (kind != 2) continue;
    const size_t end = std::min(bytes.find('\1'), bytes.size());
    put(path, bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
}

template <class Read>
void read_run(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    require(std::string_view(error.what()).find_first_of("\r\n") == std::string_view::npos,
            "an Error has more than one line");
  }
}

void load_run(std::string_view bytes) {
  const fs::path run = work_folder() / "run";
  make_run(run, bytes);
  const auto are_there = [&](const std::vector<fs::path>& checkpoints) {
    require(std::ranges::all_of(checkpoints, [](const fs::path& path) { return fs::exists(fs::symlink_status(path)); }),
            "a checkpoint of the list is not there");
  };
  read_run([&] { are_there(nn::list_checkpoints(run)); });
  read_run([&] { are_there(nn::checkpoints_to_resume(run)); });
  read_run([&] { are_there(nn::checkpoints_to_average(run, 2, 0)); });
  read_run([&] { (void)nn::problem_of_last(run); });
  read_run([&] { (void)nn::read_head(run); });
  read_run([&] {
    const nn::ChosenCheckpoint chosen = nn::choose_model(run, "--model");
    require(fs::exists(chosen.folder), "the chosen checkpoint is not there");
    (void)nn::description_of(run, chosen.folder);
    (void)nn::other_than_checkpoint(chosen.folder);
  });
}

}  // namespace
}  // namespace fovea::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  fovea::fuzz::silence_log();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('l')) fovea::fuzz::tidy_lists(bytes.substr(1));
  if (bytes.starts_with('r')) fovea::fuzz::load_run(bytes.substr(1));
  return 0;
}
