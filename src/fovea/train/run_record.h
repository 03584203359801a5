#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/base/descriptor.h"

namespace fovea::train {

// log.jsonl in a run's folder, which every run leaves, whatever it logs elsewhere: a JSON object per line, each with
// the "event" (start, train, valid, save, end), its "time" (ISO 8601), "updates" and "elapsed", the seconds of training
// since this process began. A process that resumes appends; its "start" names the update that it resumed after, and the
// records of earlier processes for later updates no longer count. Its "options" and "defaults" are all options by name,
// the ones that differ from their defaults apart, and its "valid_data" is a checksum of the validation data.
// "end" says why a run was done; a run that resumes after it begins with another "start". analysis/run_curves.h reads
// the record.
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

// All options, by name, of the process that saved the run's checkpoint after `updates`, or of the latest process if no
// line tells of that; empty if the record does not have them. Lines that are not a record count for nothing.
std::map<std::string, std::string> recorded_options(const std::filesystem::path& run, int64_t updates);

// The end of a run's latest process.
struct RecordedEnd {
  int64_t updates = 0;
  std::string reason;
  std::map<std::string, std::string> options;  // all of the process, by name
};
// Nothing if the record's last line is not one that ends a run.
std::optional<RecordedEnd> recorded_end(const std::filesystem::path& run);

// The latest value of each measure of the validations after `updates` updates with these validation data.
std::map<std::string, double> recorded_values(const std::filesystem::path& run, int64_t updates,
                                              const std::string& valid_data);

// The text as a JSON string in a record has it: bytes that are not UTF-8 are replaced.
std::string as_recorded(const std::string& text);

}  // namespace fovea::train
