#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/descriptor.h"

namespace fovea::train {

// A file of scalars that TensorBoard reads: TFRecords of Event messages. A process writes a new one, so a file that a
// killed process left half written harms no other; TensorBoard reads the whole records of it.
class EventFile {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;  // tag such as "train/loss", and value

  // Makes `folder` if it is not there, and a new file in it. TensorBoard leaves out records of earlier files in the
  // folder after `updates`, the updates at which the run resumes.
  EventFile(const std::filesystem::path& folder, int64_t updates);
  // Throws an Error if the file cannot be written.
  void write(int64_t updates, const Scalars& scalars);

  // Whether a file has the name of such a file and begins as one does.
  static bool is_own(const std::filesystem::path& path);

 private:
  void write_event(std::string_view message, int64_t step);

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace fovea::train
