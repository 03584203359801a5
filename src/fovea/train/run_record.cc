#include "fovea/train/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/spec/run_files.h"

namespace fovea::train {
namespace {

using RecordJson = nlohmann::json;

// Calls `see` with each line that is a JSON object with the text "event", until it has been called for the last.
void read_records(const std::filesystem::path& run,
                  const std::function<void(const std::string& event, const RecordJson& line)>& see) {
  const std::filesystem::path path = run / kRunRecordFile;
  std::error_code none_there;
  if (!std::filesystem::is_regular_file(path, none_there)) return;
  const std::string text = read_file(path);
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.find(R"("event":"train")") != std::string_view::npos) continue;  // most lines: they need not be parsed
    const RecordJson record = RecordJson::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) continue;
    const auto event = record.find("event");
    if (event != record.end() && event->is_string()) see(event->get<std::string>(), record);
  }
}

bool is_after(const RecordJson& record, int64_t updates) {
  const auto found = record.find("updates");
  return found != record.end() && found->is_number_integer() && found->get<int64_t>() == updates;
}

// Adds the member `name`, an object of texts; false if there is none.
bool add_texts(const RecordJson& record, const char* name, std::map<std::string, std::string>& texts) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_object()) return false;
  for (const auto& [key, value] : found->items()) {
    if (value.is_string()) texts[key] = value.get<std::string>();
  }
  return true;
}

// "2026-11-24T14:20:01.123Z".
std::string utc_now() {
  using namespace std::chrono;
  const auto now = time_point_cast<milliseconds>(system_clock::now());
  const std::time_t seconds = system_clock::to_time_t(now);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text = {};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string milli = std::to_string(1000 + now.time_since_epoch().count() % 1000).substr(1);
  return cat(std::string_view(text.data(), size), ".", milli, "Z");
}

}  // namespace

RunRecord::RunRecord(const std::filesystem::path& run)
    : path_(run / kRunRecordFile),
      file_(open_at_last(path_, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW), "write", path_) {
  const std::string before = read_file(path_);
  const size_t whole = before.rfind('\n') + 1;  // 0 without any line end
  if (whole < before.size() && ftruncate(file_.get(), static_cast<off_t>(whole)) != 0)
    fail_on_file("write", path_, errno);
}

std::map<std::string, std::string> recorded_options(const std::filesystem::path& run, int64_t updates) {
  RecordJson start, saver;
  read_records(run, [&](const std::string& event, const RecordJson& record) {
    if (event == "start") start = record;
    if (event == "save" && is_after(record, updates)) saver = start;
  });
  std::map<std::string, std::string> options;
  const RecordJson& process = saver.is_object() ? saver : start;
  if (!process.is_object() || !add_texts(process, "options", options) || !add_texts(process, "defaults", options))
    return {};
  return options;
}

std::optional<RecordedEnd> recorded_end(const std::filesystem::path& run) {
  RecordJson start, end;
  read_records(run, [&](const std::string& event, const RecordJson& record) {
    if (event == "start") start = record;
    end = event == "end" ? record : RecordJson();
  });
  const auto reason = end.is_object() ? end.find("reason") : end.end();
  RecordedEnd found;
  if (!end.is_object() || reason == end.end() || !reason->is_string() || !start.is_object()) return std::nullopt;
  if (!add_texts(start, "options", found.options) || !add_texts(start, "defaults", found.options)) return std::nullopt;
  const auto updates = end.find("updates");
  if (updates == end.end() || !updates->is_number_integer()) return std::nullopt;
  found.updates = updates->get<int64_t>();
  found.reason = reason->get<std::string>();
  return found;
}

std::map<std::string, double> recorded_values(const std::filesystem::path& run, int64_t updates,
                                              const std::string& valid_data) {
  std::map<std::string, double> values;
  bool is_same_data = true;
  read_records(run, [&](const std::string& event, const RecordJson& record) {
    const auto data = record.find("valid_data");
    if (event == "start") is_same_data = data == record.end() || *data == valid_data;
    if (event != "valid" || !is_same_data || !is_after(record, updates)) return;
    const auto name = record.find("metric"), value = record.find("value");
    if (name == record.end() || value == record.end() || !name->is_string() || !value->is_number()) return;
    values[name->get<std::string>()] = value->get<double>();
  });
  return values;
}

std::string as_recorded(const std::string& text) {
  if (is_valid_utf8(text)) return text;
  return RecordJson::parse(RecordJson(text).dump(-1, ' ', false, RecordJson::error_handler_t::replace))
      .get<std::string>();
}

void RunRecord::write(std::string_view object) {
  write_all(file_.get(), cat("{\"time\":\"", utc_now(), "\",", object.substr(1), "\n"), path_);
}

}  // namespace fovea::train
