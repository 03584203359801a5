#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/nn/identity.h"

// The files of a checkpoint, each checked against its sum. Tensors are in checkpoint.h.
namespace fovea::nn {

// Returns the text of config.yml.
std::string print_config(const Identity& identity);

class CheckpointReader {
 public:
  // Throws an Error unless `folder` is a checkpoint. `option` is the flag that named it.
  CheckpointReader(std::filesystem::path folder, std::string_view option);

  bool has(const std::string& name) const { return sums_.contains(name); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // The bytes of a file. Throws an Error if it is damaged.
  std::string file(const std::string& name) const;
  // The bytes of a file, and whether they have its checksum.
  std::pair<std::string, bool> bytes_of(const std::string& name) const;
  // The checksum of a file, or of the tensor "file/name"; "" if the checkpoint does not have it.
  std::string_view sum_of(const std::string& name) const;

  // Task and configuration, without files.
  Identity identity() const;
  // The files of the identity: all that the checkpoint has besides its own.
  std::map<std::string, std::string> identity_files() const;

 private:
  // A named pipe or a device in a stranger's folder would never end.
  std::string read_regular(const std::string& name) const;

  std::filesystem::path folder_;
  std::string_view option_;
  std::map<std::string, std::string> sums_;
};

// The target of a link, such as a run's `best`, or any other path as it is, without a slash at the end; and the number
// that the file system gives to the folder there, 0 if there is none.
struct FollowedFolder {
  std::filesystem::path path;
  uint64_t number = 0;
  bool operator==(const FollowedFolder&) const = default;
};
FollowedFolder target_of(const std::filesystem::path& folder);

// Returns read(checkpoint) of the checkpoint that `folder` is or leads to. A training may move its link meanwhile, and
// remove what it led to before, or replace a folder in place of a link; then `read` is called with what is there now.
template <class Read>
auto read_followed(const std::filesystem::path& folder, const Read& read) {
  constexpr int kTries = 10;
  FollowedFolder target = target_of(folder);
  for (int i = 1;; ++i) {
    try {
      return read(target.path);
    } catch (const Error&) {
      const FollowedFolder now = target_of(folder);
      if (now == target || i == kTries) throw;
      target = now;
    }
  }
}

}  // namespace fovea::nn
