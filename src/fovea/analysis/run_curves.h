#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::analysis {

struct CurvePoint {
  int64_t updates = 0;
  double seconds = 0;  // of training until then, over all processes of the run, without validation and saving
  double value = 0;    // NaN if the record has no number
};

// One quantity over a run.
struct RunCurve {
  std::string name;  // "training loss", or the name of a measure
  std::vector<CurvePoint> points;
  std::optional<int64_t> best;  // updates of the best value, of measures that have one
};

// The curves of a run's record (log.jsonl, see train/run_record.h): the training loss if there is any, then the
// measures in the order in which they appear; empty without any. A process's records after the update from which a
// later process resumed are left out, and so is a last line that was cut short. `source` names the file in the Error
// for a line that is not a record.
std::vector<RunCurve> parse_run_curves(std::string_view text, std::string_view source);

// The curves of the run in this folder. Throws an Error if the folder is not a run's, or has no value yet.
std::vector<RunCurve> read_run_curves(const std::string& folder);

}  // namespace fovea::analysis
