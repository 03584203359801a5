#pragma once
#include <filesystem>
#include <string_view>

#include "fovea/base/descriptor.h"

namespace fovea::train {

// log.jsonl in a run's folder, which every run leaves, whatever it logs elsewhere: a JSON object per line, each with
// the "event" (start, train, valid, save), its "time" (ISO 8601), "updates" and "elapsed", the seconds of training
// since this process began. A process that resumes appends; its "start" names the update that it resumed after, and
// what earlier processes recorded of later updates no longer counts. analysis/run_curves.h reads it.
class RunRecord {
 public:
  // Opens the record of the run in this folder. A last line without an end, as a killed process leaves it, is cut off.
  explicit RunRecord(const std::filesystem::path& run);
  // `object` is a JSON object in one line, with a member at least. Throws an Error if it cannot be written.
  void write(std::string_view object);

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace fovea::train
