#include "fovea/analysis/run_curves.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/spec/run_files.h"

namespace fovea::analysis {
namespace {

using RecordJson = nlohmann::json;

constexpr const char* kTrainingLoss = "training loss";

// A number of a record; NaN for null, which is how JSON has what is not finite.
double number_of(const RecordJson& record, const char* key) {
  const auto found = record.find(key);
  if (found != record.end() && found->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (found == record.end() || !found->is_number()) throw Error(cat("has no number '", key, "'"));
  return found->get<double>();
}

int64_t updates_of_record(const RecordJson& record) {
  constexpr int64_t kMost = 1'000'000'000'000'000;
  const auto found = record.find("updates");
  if (found == record.end() || !found->is_number_integer()) throw Error("has no whole number 'updates'");
  const bool fits = !found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{kMost};
  if (!fits || found->get<int64_t>() < 0) throw Error(cat("has 'updates' outside of 0 to ", kMost));
  return found->get<int64_t>();
}

double seconds_of_record(const RecordJson& record) {
  constexpr double kMost = 1e10;  // three centuries
  const double seconds = number_of(record, "elapsed");
  if (!(seconds >= 0 && seconds <= kMost)) throw Error("has 'elapsed' outside of 0 to 1e10 seconds");
  return seconds;
}

std::string text_of_record(const RecordJson& record, const char* key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_string()) throw Error(cat("has no text '", key, "'"));
  return found->get<std::string>();
}

class CurveReader {
 public:
  void read(std::string_view line) {
    const RecordJson record = RecordJson::parse(line, nullptr, false);
    if (!record.is_object()) throw Error("is not a JSON object");
    const std::string event = text_of_record(record, "event");
    if (event != "start" && event != "train" && event != "valid" && event != "save") return;  // of a later version
    const int64_t updates = updates_of_record(record);
    if (event == "start") resume_after(updates);
    const double seconds = before_ + seconds_of_record(record);
    clock_.push_back({updates, seconds, 0});
    if (event == "train") add(loss_, {updates, seconds, number_of(record, "cost")});
    if (event != "valid") return;
    RunCurve& measure = measure_named(text_of_record(record, "metric"));
    add(measure, {updates, seconds, number_of(record, "value")});
    const auto is_best = record.find("new_best");
    if (is_best != record.end() && is_best->is_boolean() && is_best->get<bool>()) measure.best = updates;
  }

  std::vector<RunCurve> curves() const {
    std::vector<RunCurve> all;
    if (!loss_.points.empty()) all.push_back(loss_);
    for (const RunCurve& measure : measures_) {
      if (!measure.points.empty()) all.push_back(measure);
    }
    return all;
  }

 private:
  static void cut_after(std::vector<CurvePoint>& points, int64_t updates) {
    std::erase_if(points, [&](const CurvePoint& point) { return point.updates > updates; });
  }

  void resume_after(int64_t updates) {
    cut_after(clock_, updates);
    cut_after(loss_.points, updates);
    for (RunCurve& measure : measures_) {
      cut_after(measure.points, updates);
      if (measure.best && *measure.best > updates) measure.best.reset();
    }
    before_ = clock_.empty() ? 0 : clock_.back().seconds;
  }

  // A value of the same update as the last one replaces it: a resumed run validates again if it was stopped there.
  static void add(RunCurve& curve, const CurvePoint& point) {
    if (!curve.points.empty() && curve.points.back().updates == point.updates) curve.points.pop_back();
    curve.points.push_back(point);
  }

  RunCurve& measure_named(const std::string& name) {
    const auto found = std::ranges::find_if(measures_, [&](const RunCurve& curve) { return curve.name == name; });
    return found != measures_.end() ? *found : measures_.emplace_back(RunCurve{name, {}, {}});
  }

  RunCurve loss_ = {kTrainingLoss, {}, {}};
  std::vector<RunCurve> measures_;
  std::vector<CurvePoint> clock_;  // of every record; no values
  double before_ = 0;              // seconds of earlier processes
};

}  // namespace

std::vector<RunCurve> parse_run_curves(std::string_view text, std::string_view source) {
  CurveReader reader;
  int64_t number = 1;
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos; ++number) {
    try {
      reader.read(text.substr(0, end));
    } catch (const Error& e) {
      throw Error(cat(source, ":", number, ": ", e.what(), "; expected a line that fovea train wrote"));
    }
    text.remove_prefix(end + 1);
  }
  return reader.curves();
}

std::vector<RunCurve> read_run_curves(const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / kRunRecordFile).string();
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed))
    throw Error(cat("'", folder, "' is not a folder; expected the folder of a run"));
  if (!std::filesystem::exists(file, failed))
    throw Error(
        cat("'", folder, "' has no ", kRunRecordFile, "; expected the folder of a run, where fovea train writes it"));
  std::vector<RunCurve> curves = parse_run_curves(read_file(file), file);
  if (curves.empty())
    throw Error(cat("'", file, "' has no loss and no validation yet; wait for --disp-freq updates of the training"));
  return curves;
}

}  // namespace fovea::analysis
